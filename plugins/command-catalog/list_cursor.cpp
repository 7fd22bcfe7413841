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
  BatchLimits batch;
  for (const Element& field : request.document("cursor")) {
    if (field.name() != "batchSize")
      return {location_code(40415), "BSON field '" + std::string(request.name()) + ".cursor." +
                                        std::string(field.name()) + "' is an unknown field."};
    if (!field->is_number())
      return {ErrorCode::kTypeMismatch, "BSON field 'cursor.batchSize' must be a number"};
    if (field->number_as_int64() < 0)
      return {location_code(51024),
              "BSON field 'batchSize' value must be >= 0, actual value '" +
                  std::to_string(field->number_as_int64()) + "'"};
    batch.documents = field->number_as_int64();
  }
  auto open = std::make_unique<OpenCursor>();
  open->ns = ns;
  open->lsid = context.session().lsid;
  open->cursor = std::make_unique<ListCursor>(std::move(documents));
  open->command = OwnedDocument(request.body());
  return reply_first_batch(context, std::move(open), batch, false, reply);
}

}  // namespace multifora::catalog_commands
