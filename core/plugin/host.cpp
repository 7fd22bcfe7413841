#include "core/plugin/host.h"

#include <dlfcn.h>

#include <cstring>
#include <optional>

#include "core/base/assert.h"
#include "core/plugin/codec.h"
#include "core/plugin/command.h"
#include "core/plugin/index.h"
#include "core/plugin/plugin.h"

namespace multifora {
namespace {

class NoConfig final : public PluginConfig {
 public:
  std::optional<std::int64_t> integer(std::string_view, std::string_view) const override {
    return std::nullopt;
  }
  std::optional<std::string> text(std::string_view, std::string_view) const override {
    return std::nullopt;
  }
};

// "plugin codec-zstd 1.0.0 (/path/codec-zstd.so)"
std::string describe(const PluginHost::Loaded& plugin) {
  std::string text = "plugin " + plugin.name + " " + plugin.version;
  if (!plugin.file.empty()) text += " (" + plugin.file + ")";
  return text;
}

}  // namespace

struct PluginHost::Impl {
  template <class T>
  struct Named {
    const T* row;
    std::size_t plugin;  // index in `loaded` of its owner
  };
  template <class T>
  using Registry = std::unordered_map<std::string_view, Named<T>>;

  std::vector<Loaded> loaded;
  bool frozen = false;
  Registry<Codec> codecs_by_name;
  Registry<IndexKind> kinds_by_name;
  Registry<CommandRow> commands_by_name;
  std::vector<const Codec*> codecs;
  std::vector<const IndexKind*> kinds;
  std::vector<const CommandRow*> commands;
  const Codec* wire_codecs[256] = {};
  std::unique_ptr<CollatorFactory> collators;
  std::unique_ptr<FilterCompiler> filters;
  std::vector<std::unique_ptr<BackgroundTask>> background;
  std::unordered_map<std::type_index, std::shared_ptr<void>> services;
  std::shared_ptr<const PluginConfig> config = std::make_shared<NoConfig>();
  MetricsRegistry metrics;
  LogSink* log = &null_log();
  Clock* clock = &system_clock();

  // Where registrations outside load() are counted to: the program itself.
  const Loaded& owner(std::size_t index) const {
    static const Loaded program{"(the program)", "", ""};
    return index < loaded.size() ? loaded[index] : program;
  }
  std::size_t current() const { return loaded.empty() ? ~std::size_t{0} : loaded.size() - 1; }

  template <class T>
  Status add(Registry<T>& registry, std::string_view what, std::string_view name, const T* row) {
    MULTIFORA_ASSERT(!frozen);
    if (name.empty())
      return {ErrorCode::kBadValue,
              describe(owner(current())) + " registers a " + std::string(what) + " without a name"};
    const auto [at, inserted] = registry.try_emplace(name, Named<T>{row, current()});
    if (inserted) return {};
    return {ErrorCode::kBadValue,
            describe(owner(current())) + " registers the " + std::string(what) + " '" +
                std::string(name) + "', which " + describe(owner(at->second.plugin)) +
                " registered already; load only one of them"};
  }
};

PluginHost::PluginHost() : impl_(std::make_unique<Impl>()) {}
PluginHost::~PluginHost() = default;

Status PluginHost::load(const PluginEntry& entry, std::string_view file) {
  MULTIFORA_ASSERT(!impl_->frozen);
  const std::string where = file.empty() ? "linked in" : std::string(file);
  if (std::strcmp(entry.abi_stamp, kPluginAbiStamp) != 0)
    return {ErrorCode::kUnsupportedFormat,
            where + ": plugin " + entry.name + " " + entry.version + " was built for '" +
                std::string(entry.abi_stamp) + "', but this program is '" + kPluginAbiStamp +
                "'; build the plugin with the same compiler and sources as the program"};
  for (const Loaded& other : impl_->loaded)
    if (other.name == entry.name)
      return {ErrorCode::kBadValue, where + ": plugin " + entry.name + " " + entry.version +
                                        " is loaded already as " + describe(other) +
                                        "; remove one of them from `plugins`"};
  impl_->loaded.push_back({entry.name, entry.version, std::string(file)});
  Status status = entry.register_plugin(*this);
  if (status.ok()) return {};
  return std::move(status).with_context(where);
}

Status PluginHost::load_shared(const std::string& path) {
  // A bare name is a file like any other, not one to look for among the system's libraries.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr)
    return {ErrorCode::kFileStreamFailed, "cannot load plugin " + path + ": " + dlerror()};
  using EntryFunction = const PluginEntry* (*)();
  const auto entry = reinterpret_cast<EntryFunction>(dlsym(handle, "multifora_plugin"));
  if (entry == nullptr)
    return {ErrorCode::kUnsupportedFormat,
            path + " is a shared object but no MultiforaDB plugin: it has no symbol multifora_plugin"};
  return load(*entry(), path);
}

Status PluginHost::add_codec(const Codec* codec) {
  MULTIFORA_TRY(impl_->add(impl_->codecs_by_name, "codec", codec->name, codec));
  if (codec->wire_id != 0) {
    if (impl_->wire_codecs[codec->wire_id] != nullptr)
      return {ErrorCode::kBadValue,
              "codec '" + std::string(codec->name) + "' has the wire id of codec '" +
                  std::string(impl_->wire_codecs[codec->wire_id]->name) + "'"};
    impl_->wire_codecs[codec->wire_id] = codec;
  }
  impl_->codecs.push_back(codec);
  return {};
}

Status PluginHost::add_index_kind(const IndexKind* kind) {
  MULTIFORA_TRY(impl_->add(impl_->kinds_by_name, "index kind", kind->name, kind));
  impl_->kinds.push_back(kind);
  return {};
}

Status PluginHost::add_command(const CommandRow* row) {
  MULTIFORA_TRY(impl_->add(impl_->commands_by_name, "command", row->name, row));
  for (std::string_view alias : row->aliases)
    MULTIFORA_TRY(impl_->add(impl_->commands_by_name, "command", alias, row));
  impl_->commands.push_back(row);
  return {};
}

Status PluginHost::set_collator_factory(std::unique_ptr<CollatorFactory> factory) {
  MULTIFORA_ASSERT(!impl_->frozen);
  if (impl_->collators)
    return {ErrorCode::kBadValue, "two plugins offer collations; load only one of them"};
  impl_->collators = std::move(factory);
  return {};
}

Status PluginHost::set_filter_compiler(std::unique_ptr<FilterCompiler> compiler) {
  MULTIFORA_ASSERT(!impl_->frozen);
  if (impl_->filters)
    return {ErrorCode::kBadValue, "two plugins offer a filter compiler; load only one of them"};
  impl_->filters = std::move(compiler);
  return {};
}

Status PluginHost::add_background(std::unique_ptr<BackgroundTask> task) {
  MULTIFORA_ASSERT(!impl_->frozen);
  impl_->background.push_back(std::move(task));
  return {};
}

Status PluginHost::add_service_erased(std::type_index type, std::shared_ptr<void> service) {
  MULTIFORA_ASSERT(!impl_->frozen);
  if (!impl_->services.emplace(type, std::move(service)).second)
    return {ErrorCode::kBadValue, std::string("service registered twice: ") + type.name()};
  return {};
}

void* PluginHost::service_erased(std::type_index type) const {
  const auto at = impl_->services.find(type);
  return at == impl_->services.end() ? nullptr : at->second.get();
}

void PluginHost::set_config(std::shared_ptr<const PluginConfig> config) {
  impl_->config = std::move(config);
}
void PluginHost::freeze() { impl_->frozen = true; }

const Codec* PluginHost::codec(std::string_view name) const {
  const auto at = impl_->codecs_by_name.find(name);
  return at == impl_->codecs_by_name.end() ? nullptr : at->second.row;
}
const Codec* PluginHost::wire_codec(std::uint8_t wire_id) const {
  return impl_->wire_codecs[wire_id];
}
const IndexKind* PluginHost::index_kind(std::string_view name) const {
  const auto at = impl_->kinds_by_name.find(name);
  return at == impl_->kinds_by_name.end() ? nullptr : at->second.row;
}
const IndexKind* PluginHost::choose_index_kind(DocumentView spec,
                                               std::uint32_t capabilities) const {
  const IndexKind* best = nullptr;
  int best_claim = 0;
  for (const IndexKind* kind : impl_->kinds) {
    if ((kind->capabilities & capabilities) != capabilities) continue;
    const int claim = kind->claims(spec);
    if (claim <= best_claim) continue;
    best = kind;
    best_claim = claim;
  }
  return best;
}
const CommandRow* PluginHost::command(std::string_view name) const {
  const auto at = impl_->commands_by_name.find(name);
  return at == impl_->commands_by_name.end() ? nullptr : at->second.row;
}
const std::vector<const Codec*>& PluginHost::codecs() const { return impl_->codecs; }
const std::vector<const IndexKind*>& PluginHost::index_kinds() const { return impl_->kinds; }
const std::vector<const CommandRow*>& PluginHost::commands() const { return impl_->commands; }
const CollatorFactory* PluginHost::collator_factory() const { return impl_->collators.get(); }
const FilterCompiler* PluginHost::filter_compiler() const { return impl_->filters.get(); }
const std::vector<std::unique_ptr<BackgroundTask>>& PluginHost::background() const {
  return impl_->background;
}
const PluginConfig& PluginHost::config() const { return *impl_->config; }
const std::vector<PluginHost::Loaded>& PluginHost::loaded() const { return impl_->loaded; }
MetricsRegistry& PluginHost::metrics() { return impl_->metrics; }
void PluginHost::set_log(LogSink* log) { impl_->log = log; }
LogSink& PluginHost::log() const { return *impl_->log; }
void PluginHost::set_clock(Clock* clock) { impl_->clock = clock; }
Clock& PluginHost::clock() const { return *impl_->clock; }

}  // namespace multifora
