// PluginHost: where plugins register what they offer, and where everybody else looks it up.
//
// One host a process (or an embedded database). Registration happens on one thread before the store
// opens; freeze() ends it; afterwards the host is read-only and any thread may look things up.
// Registries refuse duplicates with a Status that names the plugin, the name and the versions.
//
// A plugin is a folder with one entry, written with MULTIFORA_PLUGIN (see plugin.h). Descriptors
// (Codec, IndexKind, CommandRow ...) are static objects of the plugin: they live as long as the
// process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/metrics.h"
#include "core/base/status.h"

namespace multifora {

struct Codec;
struct IndexKind;
struct CommandRow;
class Store;
class Collator;
class DocumentView;

// Makes collators from collation specifications; at most one plugin offers it.
class CollatorFactory {
 public:
  virtual ~CollatorFactory() = default;
  // BadValue / FailedToParse as MongoDB for a wrong spec; null for {locale: "simple"}.
  virtual Result<std::shared_ptr<const Collator>> make(DocumentView spec) const = 0;
};

// Compiles a filter for uses below the query engine: partial indexes and validators.
class CompiledFilter {
 public:
  virtual ~CompiledFilter() = default;
  virtual bool matches(DocumentView document) const = 0;
};
class FilterCompiler {
 public:
  virtual ~FilterCompiler() = default;
  virtual Result<std::unique_ptr<const CompiledFilter>> compile(DocumentView filter,
                                                                const Collator* collator) const = 0;
  // Why `document` fails `filter`, as errInfo.details of DocumentValidationFailure shows it.
  virtual std::string explain_failure(DocumentView filter, DocumentView document) const = 0;
};

// Work that runs beside commands, such as TTL sweeps and ending idle cursors. Each run() does a small
// slice and returns; the scheduler calls it again after interval_ms(). A shutdown waits for the slice.
class BackgroundTask {
 public:
  virtual ~BackgroundTask() = default;
  virtual std::string_view name() const = 0;
  virtual std::int64_t interval_ms() const = 0;  // may change between calls; 0: at once
  // Called on the scheduler's thread, one task at a time. A lasting failure is logged once.
  virtual Status run(Store& store) = 0;
};

// One configuration value of a plugin, from the file's section named like the plugin, e.g.
// {"codec-zstd": {"level": 3}}; absent keys keep the plugin's default.
class PluginConfig {
 public:
  virtual ~PluginConfig() = default;
  // The value at "section.key" where the user gave one.
  virtual std::optional<std::int64_t> integer(std::string_view section, std::string_view key) const = 0;
  virtual std::optional<std::string> text(std::string_view section, std::string_view key) const = 0;
};

class PluginHost {
 public:
  PluginHost();
  ~PluginHost();
  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;

  // --- registration (before freeze) -----------------------------------------------------------
  // Runs a plugin's entry with its name set as the owner of what it registers. Refuses another ABI
  // stamp, a plugin already loaded, and passes on the entry's own refusal.
  Status load(const struct PluginEntry& entry, std::string_view file);
  // Opens a shared object and loads it. The error names the file, the plugin and both ABI stamps.
  Status load_shared(const std::string& path);

  Status add_codec(const Codec* codec);
  Status add_index_kind(const IndexKind* kind);
  Status add_command(const CommandRow* row);  // name and aliases must be new
  Status set_collator_factory(std::unique_ptr<CollatorFactory> factory);
  Status set_filter_compiler(std::unique_ptr<FilterCompiler> compiler);
  Status add_background(std::unique_ptr<BackgroundTask> task);
  // A service that plugins share (e.g. the query engine's cursors), found by its type.
  template <class T>
  Status add_service(std::shared_ptr<T> service) {
    return add_service_erased(typeid(T), std::move(service));
  }
  void set_config(std::shared_ptr<const PluginConfig> config);
  void freeze();

  // --- look-up --------------------------------------------------------------------------------
  const Codec* codec(std::string_view name) const;           // null: not loaded
  const Codec* wire_codec(std::uint8_t wire_id) const;
  const IndexKind* index_kind(std::string_view name) const;  // null: not loaded
  // The kind that claims the specification of an index highest, of those that have all of
  // `capabilities` (IndexCapability); null: none does.
  const IndexKind* choose_index_kind(DocumentView spec, std::uint32_t capabilities = 0) const;
  const CommandRow* command(std::string_view name) const;    // by name or alias, exact case
  const std::vector<const Codec*>& codecs() const;
  const std::vector<const IndexKind*>& index_kinds() const;
  const std::vector<const CommandRow*>& commands() const;
  const CollatorFactory* collator_factory() const;
  const FilterCompiler* filter_compiler() const;
  const std::vector<std::unique_ptr<BackgroundTask>>& background() const;
  template <class T>
  T* service() const {
    return static_cast<T*>(service_erased(typeid(T)));
  }
  const PluginConfig& config() const;
  // Name and version of each loaded plugin, in load order.
  struct Loaded {
    std::string name;
    std::string version;
    std::string file;  // empty: linked in
  };
  const std::vector<Loaded>& loaded() const;

  // Shared tools; set before plugins are loaded.
  MetricsRegistry& metrics();
  void set_log(LogSink* log);
  LogSink& log() const;
  void set_clock(Clock* clock);
  Clock& clock() const;

 private:
  Status add_service_erased(std::type_index type, std::shared_ptr<void> service);
  void* service_erased(std::type_index type) const;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace multifora
