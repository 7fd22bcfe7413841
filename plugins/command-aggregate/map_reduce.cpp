// mapReduce: known, and refused as by a server whose JavaScript is switched off.
#include "plugins/command-aggregate/aggregate.h"

namespace multifora {
namespace {

constexpr int kNoScripting = 31264;

Status map_reduce(CommandContext&, const CommandRequest&, DocumentBuilder&) {
  return {location_code(kNoScripting),
          "mapReduce requires the server's JavaScript engine, which is disabled"};
}

constexpr std::uint32_t kFunction = kOptAny;  // code, code with scope or a string

}  // namespace

const CommandRow kMapReduce{
    .name = "mapReduce",
    .aliases = {"mapreduce"},
    .help = "needs server-side JavaScript, which this server does not have",
    .privilege = "find",
    .lock = LockIntent::kRead,
    .flags = kCollectionName | kAcceptsReadConcern | kAcceptsWriteConcern,
    .options =
        {
            // Checked, so that mistakes are told apart; nothing runs.
            {"map", kFunction, kRequired | kNoEffect},
            {"reduce", kFunction, kRequired | kNoEffect},
            {"out", kOptString | kOptObject, kRequired | kNoEffect},
            {"query", kOptObject, kNoEffect},
            {"sort", kOptObject, kNoEffect},
            {"collation", kOptObject, kNoEffect},
            {"limit", kOptNumber, kNoEffect},
            {"finalize", kFunction, kNoEffect},
            {"scope", kOptObject, kNoEffect},
            {"jsMode", kOptBool, kNoEffect},
            {"verbose", kOptBool, kNoEffect},
            {"bypassDocumentValidation", kOptBool, kNoEffect},
        },
    .run = map_reduce,
};

}  // namespace multifora
