#include "plugins/query-engine/current_op.h"

#include "core/base/clock.h"
#include "core/store/store.h"

namespace multifora {
namespace {

// "phase phase: done/total percent%"; the phase alone where nothing is counted yet.
std::string message_of(const Store::BuildProgress& build) {
  if (build.total == 0) return build.phase;
  return build.phase + " " + build.phase + ": " + std::to_string(build.done) + "/" +
         std::to_string(build.total) + " " + std::to_string(build.done * 100 / build.total) + "%";
}

void append_index_build(DocumentBuilder row, const Store::BuildProgress& build,
                        std::int64_t running_us) {
  const Namespace parts = Namespace::split(build.ns);
  row.append("type", "op").append("desc", "IndexBuildsCoordinator").append("active", true);
  row.append("secs_running", running_us / 1'000'000).append("microsecs_running", running_us);
  row.append("op", "command").append("ns", build.ns);
  {
    auto command = row.object("command");
    command.append("createIndexes", parts.collection);
    {
      auto indexes = command.array("indexes");
      for (const OwnedDocument& spec : build.specs) indexes.append(spec.view());
    }
    command.append("$db", parts.db);
  }
  row.append("msg", message_of(build));
  auto progress = row.object("progress");
  progress.append("done", static_cast<std::int64_t>(build.done));
  progress.append("total", static_cast<std::int64_t>(build.total));
}

}  // namespace

void append_index_builds(const Store& store, ArrayBuilder& out) {
  const std::int64_t now_us = store.clock().monotonic_us();
  for (const Store::BuildProgress& build : store.index_builds())
    append_index_build(out.object(), build, now_us - build.started_us);
}

}  // namespace multifora
