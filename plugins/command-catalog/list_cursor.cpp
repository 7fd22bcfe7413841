// The cursor of a list command: its documents are all at hand.
#include "core/base/limits.h"
#include "plugins/command-catalog/commands.h"
#include "plugins/query-engine/cursor_manager.h"

namespace multifora::catalog_commands {
namespace {

class ListCursor final : public ClientCursor {
 public:
  explicit ListCursor(std::vector<OwnedDocument> documents) : documents_(std::move(documents)) {}
  Result<std::optional<DocumentView>> next() override {
    if (exhausted()) return std::nullopt;
    return documents_[at_++].view();
  }
  bool exhausted() const override { return at_ == documents_.size(); }
  Status detach() override { return {}; }
  Status attach(CommandContext&) override { return {}; }

 private:
  std::vector<OwnedDocument> documents_;
  std::size_t at_ = 0;
};

}  // namespace

Status reply_with_cursor(CommandContext& context, const CommandRequest& request,
                         const std::string& ns, std::vector<OwnedDocument> documents,
                         DocumentBuilder& reply) {
  MULTIFORA_ASSIGN(const BatchLimits batch, read_cursor_option(request, -1));
  auto open = std::make_unique<OpenCursor>();
  open->ns = ns;
  open->lsid = context.session().lsid;
  open->cursor = std::make_unique<ListCursor>(std::move(documents));
  return reply_first_batch(context, std::move(open), batch, false, reply);
}

}  // namespace multifora::catalog_commands
