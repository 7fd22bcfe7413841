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
            {"map", kFunction, kRequired},
            {"reduce", kFunction, kRequired},
            {"out", kOptString | kOptObject, kRequired},
            {"query", kOptObject},
            {"sort", kOptObject},
            {"collation", kOptObject},
            {"limit", kOptNumber},
            {"finalize", kFunction},
            {"scope", kOptObject},
            {"jsMode", kOptBool},
            {"verbose", kOptBool},
            {"bypassDocumentValidation", kOptBool},
        },
    .run = map_reduce,
};

}  // namespace multifora
