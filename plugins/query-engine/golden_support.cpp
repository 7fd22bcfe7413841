#include "plugins/query-engine/golden_support.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/bson/compare.h"
#include "core/bson/extended_json.h"
#include "plugins/query-engine/projection.h"
#include "plugins/query-engine/sort_key.h"
#include "plugins/query-engine/update.h"
#include "tests/support/shared_dir.h"

namespace multifora::golden {

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

fs::path corpus() { return test::corpus_dir("golden"); }

// ---- The corpus's JSON to BSON. Only what its own reader takes for a typed value is one: a
// ---- {"$regex": ...} stays the query operator that it is.

void append_json(DocumentBuilder& out, std::string_view name, const Json& json);

std::string decode_base64(const std::string& text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) out.push_back(static_cast<char>(bits >> (count -= 8) & 0xff));
  }
  return out;
}

double parse_double(const std::string& text) {
  if (text == "NaN") return std::nan("");
  if (text == "Infinity") return HUGE_VAL;
  if (text == "-Infinity") return -HUGE_VAL;
  return std::strtod(text.c_str(), nullptr);
}

bool append_typed(DocumentBuilder& out, std::string_view name, const Json& json) {
  if (json.size() == 2 && json.contains("$code") && json.contains("$scope")) {
    DocumentBuilder scope;
    for (const auto& [key, value] : json["$scope"].items()) append_json(scope, key, value);
    const OwnedDocument owned = std::move(scope).finish();
    out.append_code_with_scope(name, json["$code"].get<std::string>(), owned.view());
    return true;
  }
  if (json.size() != 1) return false;
  const std::string key = json.begin().key();
  const Json& value = json.begin().value();
  const auto text = [&] { return value.get<std::string>(); };
  if (key == "$numberInt") {
    out.append(name, static_cast<std::int32_t>(std::stol(text())));
  } else if (key == "$numberLong") {
    out.append(name, static_cast<std::int64_t>(std::stoll(text())));
  } else if (key == "$numberDouble") {
    out.append(name, parse_double(text()));
  } else if (key == "$numberDecimal") {
    out.append(name, *Decimal128::parse(text()));
  } else if (key == "$oid") {
    out.append(name, *ObjectId::from_hex(text()));
  } else if (key == "$date" && value.is_object()) {
    out.append_date_ms(name, std::stoll(value["$numberLong"].get<std::string>()));
  } else if (key == "$binary" && value.is_object()) {
    const auto subtype = static_cast<std::uint8_t>(
        std::stoul(value["subType"].get<std::string>(), nullptr, 16));
    std::string bytes = decode_base64(value["base64"].get<std::string>());
    if (subtype == 2) {  // says its length twice
      Buffer length;
      append_le(length, static_cast<std::int32_t>(bytes.size()));
      bytes.insert(0, length);
    }
    out.append_binary(name, bytes, subtype);
  } else if (key == "$regularExpression") {
    out.append_regex(name, value["pattern"].get<std::string>(),
                     value["options"].get<std::string>());
  } else if (key == "$code") {
    out.append_code(name, text());
  } else if (key == "$symbol") {
    out.append_symbol(name, text());
  } else if (key == "$dbPointer") {
    out.append_dbref(name, value["$ref"].get<std::string>(),
                     *ObjectId::from_hex(value["$id"]["$oid"].get<std::string>()));
  } else if (key == "$timestamp" && value.is_object() && value.contains("t")) {
    out.append_timestamp(name, value["t"].get<std::uint64_t>() << 32 |
                                   value["i"].get<std::uint64_t>());
  } else if (key == "$minKey") {
    out.append_min_key(name);
  } else if (key == "$maxKey") {
    out.append_max_key(name);
  } else if (key == "$undefined") {
    out.append_undefined(name);
  } else {
    return false;
  }
  return true;
}

void append_json(DocumentBuilder& out, std::string_view name, const Json& json) {
  if (json.is_null()) {
    out.append_null(name);
  } else if (json.is_string()) {
    out.append(name, json.get<std::string>());
  } else if (json.is_boolean()) {
    out.append(name, json.get<bool>());
  } else if (json.is_number_integer()) {
    out.append(name, static_cast<std::int32_t>(json.get<std::int64_t>()));
  } else if (json.is_number()) {
    out.append(name, json.get<double>());
  } else if (json.is_array()) {
    ArrayBuilder array = out.array(name);
    for (const Json& element : json) {
      const std::string_view next = array.next_name();
      append_json(array.raw(), next, element);
    }
  } else if (!append_typed(out, name, json)) {
    DocumentBuilder object = out.object(name);
    for (const auto& [key, value] : json.items()) append_json(object, key, value);
  }
}

OwnedDocument to_bson(const Json& json) {
  DocumentBuilder out;
  for (const auto& [key, value] : json.items()) append_json(out, key, value);
  return std::move(out).finish();
}

// ---- Comparing a reply with what a case wants ----

struct Looseness {
  std::set<std::string> sets;
  double approx = 0;
  bool decimal_by_value = false;
  bool fields_any_order = false;
};

std::string show(const ValueView& value) {
  if (value.missing()) return "nothing";
  std::string text = to_extended_json(value, JsonMode::kCanonical);
  if (text.size() > 200) text.resize(200);
  return text;
}

bool type_matches(std::string_view want, const ValueView& value) {
  if (want == "any") return true;
  if (want == "number") return value.is_number();
  if (want == "oid") return value.type() == BsonType::kObjectId;
  if (want == "uuid") return value.type() == BsonType::kBinData && value.binary_subtype() == 4;
  return type_name(value.type()) == want;
}

// Empty where `got` is as wanted.
std::string compare(const ValueView& want, const ValueView& got, const Looseness& loose,
                    const std::string& path);

std::string plain(const std::string& path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    if (c == '[') inside = true;
    if (!inside) out.push_back(c);
    if (c == ']') inside = false;
  }
  return out;
}

std::string compare_sets(DocumentView want, DocumentView got, const Looseness& loose,
                         const std::string& path) {
  std::vector<ValueView> left;
  for (const Element& element : got) left.push_back(element.value());
  if (want.count() != left.size())
    return fmt::format("{}: wanted {} elements in any order, got {}", path, want.count(),
                       left.size());
  for (const Element& element : want) {
    const auto at = std::ranges::find_if(left, [&](const ValueView& candidate) {
      return compare(element.value(), candidate, loose, path + "[0]").empty();
    });
    if (at == left.end())
      return fmt::format("{}: no element {} among {}", path, show(element.value()),
                         show(as_value(got, BsonType::kArray)));
    left.erase(at);
  }
  return {};
}

std::string compare_documents_in_order(DocumentView want, DocumentView got, const Looseness& loose,
                                       const std::string& path) {
  auto x = want.begin();
  auto y = got.begin();
  for (; x != want.end(); ++x, ++y) {
    if (y == got.end() || x->name() != y->name())
      return fmt::format("{}: wanted field {} in {}", path, x->name(), show(as_value(got)));
    const std::string wrong =
        compare(x->value(), y->value(), loose, path + "." + std::string(x->name()));
    if (!wrong.empty()) return wrong;
  }
  if (y != got.end()) return fmt::format("{}: unexpected field {}", path, y->name());
  return {};
}

std::string compare_documents_loosely(DocumentView want, DocumentView got, const Looseness& loose,
                                      const std::string& path) {
  for (const Element& element : want) {
    const std::string wrong =
        compare(element.value(), got[element.name()], loose,
                path.empty() ? std::string(element.name()) : path + "." + std::string(element.name()));
    if (!wrong.empty()) return wrong;
  }
  for (const Element& element : got)
    if (want[element.name()].missing())
      return fmt::format("{}: unexpected field {}: {}", path, element.name(),
                         show(element.value()));
  return {};
}

std::string compare(const ValueView& want, const ValueView& got, const Looseness& loose,
                    const std::string& path) {
  if (want.type() == BsonType::kObject && want.as_document().count() == 1) {
    const Element only = want.as_document().first();
    if (only.name() == "$$") {
      const std::string_view type = only->as_string();
      const bool good = type == "absent" ? got.missing() : !got.missing() && type_matches(type, got);
      return good ? "" : fmt::format("{}: wanted {}, got {}", path, type, show(got));
    }
    if (only.name() == "$$num") {
      const bool good = got.is_number() && compare_numbers(only.value(), got) == 0;
      return good ? "" : fmt::format("{}: wanted number {}, got {}", path, show(only.value()),
                                     show(got));
    }
  }
  const std::string different =
      fmt::format("{}: wanted {}, got {}", path, show(want), show(got));
  if (want.type() != got.type()) return different;
  if (want.type() == BsonType::kObject) {
    if (loose.fields_any_order || path.empty() || path == "lastErrorObject")
      return compare_documents_loosely(want.as_document(), got.as_document(), loose, path);
    return compare_documents_in_order(want.as_document(), got.as_document(), loose, path);
  }
  if (want.type() == BsonType::kArray) {
    const DocumentView x = want.as_document();
    const DocumentView y = got.as_document();
    if (loose.sets.contains(plain(path))) return compare_sets(x, y, loose, path);
    if (x.count() != y.count()) return different;
    auto other = y.begin();
    std::size_t index = 0;
    for (const Element& element : x) {
      const std::string wrong = compare(element.value(), other->value(), loose,
                                        fmt::format("{}[{}]", path, index++));
      if (!wrong.empty()) return wrong;
      ++other;
    }
    return {};
  }
  if (want.type() == BsonType::kDouble && loose.approx > 0) {
    const double a = want.as_double();
    const double b = got.as_double();
    if (std::fabs(a - b) <= loose.approx * std::max(std::fabs(a), std::fabs(b))) return {};
  }
  // One NaN is as good as another.
  if (want.type() == BsonType::kDouble && std::isnan(want.as_double()) &&
      std::isnan(got.as_double()))
    return {};
  if (want.type() == BsonType::kDecimal128 && loose.decimal_by_value &&
      want.as_decimal().compare(got.as_decimal()) == 0)
    return {};
  if (want.type() == BsonType::kDecimal128)
    return want.as_decimal().to_string() == got.as_decimal().to_string() ? "" : different;
  return identical_values(want, got) ? "" : different;
}

// ---- Commands on documents in memory ----

// Thrown by the runner for what it does not do; the case is then skipped.
using Unsupported = Skip;

AggregateRunner aggregate_runner = nullptr;

using Documents = std::vector<OwnedDocument>;

constexpr std::int64_t kNowMs = 1'700'000'000'000;
constexpr std::uint64_t kClusterTime = std::uint64_t{1'700'000'000} << 32 | 1;

class Database {
 public:
  explicit Database(const Json& setup) {
    if (!setup.contains("collections")) return;
    for (const auto& [name, collection] : setup["collections"].items()) {
      if (collection.contains("options")) throw Unsupported{"collection options"};
      if (collection.dump().contains("\"unique\":true")) throw Unsupported{"unique indexes"};
      Documents& documents = collections_[name];
      if (!collection.contains("docs")) continue;
      for (const Json& json : collection["docs"]) {
        const OwnedDocument document = to_bson(json);
        insert(documents, document.view());
      }
    }
  }

  // The reply's fields that count.
  Result<OwnedDocument> run(DocumentView command) {
    command_ = command;
    scope_.emplace();
    context_.emplace();
    context_->now_ms = kNowMs;
    context_->cluster_time = kClusterTime;
    if (!command["let"].missing())
      MULTIFORA_TRY_R(bind_let(command["let"].as_document(), *scope_, *context_));
    const std::string_view name = command.first().name();
    if (!command["collation"].missing()) throw Unsupported{"collation"};
    if (!command["hint"].missing()) throw Unsupported{"hint"};
    if (name == "aggregate" && aggregate_runner != nullptr) return aggregate();
    if (command.first().type() != BsonType::kString) throw Unsupported{"a name that is none"};
    if (name == "find") return find();
    if (name == "count") return count();
    if (name == "aggregate") return aggregate();
    if (name == "update") return update();
    if (name == "delete") return remove();
    if (name == "insert") return insert_command();
    if (name == "findAndModify" || name == "findandmodify") return find_and_modify();
    if (name == "distinct") return distinct();
    throw Unsupported{std::string(name)};
  }

 private:
  static void insert(Documents& documents, DocumentView document) {
    DocumentBuilder out;
    const ValueView id = document["_id"];
    if (id.missing())
      out.append("_id", ObjectId::generate());
    else
      out.append("_id", id);
    for (const Element& element : document)
      if (element.name() != "_id") out.append(element);
    documents.push_back(std::move(out).finish());
  }

  Documents& collection() { return collections_[std::string(command_.first()->as_string())]; }

  void known_options(std::initializer_list<std::string_view> names) {
    for (const Element& element : command_)
      if (std::ranges::find(names, element.name()) == names.end() &&
          element.name() != command_.first().name() && element.name() != "let")
        throw Unsupported{std::string(element.name())};
  }

  static DocumentView document_or_empty(const ValueView& value) {
    if (value.missing()) return DocumentView();
    if (value.type() != BsonType::kObject) throw Unsupported{"an option of the wrong type"};
    return value.as_document();
  }

  MatcherOptions matcher_options(bool allow_expr = true) {
    MatcherOptions options;
    options.allow_expr = allow_expr;
    options.scope = &*scope_;
    return options;
  }

  struct Hit {
    OwnedDocument document;
    MatchDetails details;
    std::size_t index;
  };

  Result<std::vector<Hit>> filter(const Documents& documents, const Matcher& matcher) {
    std::vector<Hit> hits;
    for (std::size_t i = 0; i < documents.size(); ++i) {
      MatchDetails details;
      MULTIFORA_ASSIGN_R(const bool found,
                         matcher.matches(documents[i].view(), &*context_, &details));
      if (found) hits.push_back({documents[i], details, i});
    }
    return hits;
  }

  Status sort(std::vector<Hit>& hits, DocumentView pattern) {
    MULTIFORA_ASSIGN(const SortPattern sort, SortPattern::parse(pattern));
    if (sort.natural() != 0) {
      if (sort.natural() < 0) std::ranges::reverse(hits);
      return {};
    }
    std::vector<std::pair<Buffer, std::size_t>> keys;
    for (std::size_t i = 0; i < hits.size(); ++i) {
      KeyStringBuilder key;
      MULTIFORA_TRY(sort.append_key(hits[i].document.view(), nullptr, key));
      keys.emplace_back(key.key(), i);
    }
    std::ranges::sort(keys);  // the index keeps equal ones in order
    std::vector<Hit> sorted;
    for (const auto& [key, index] : keys) sorted.push_back(hits[index]);
    hits = std::move(sorted);
    return {};
  }

  static void cut(std::vector<Hit>& hits, std::int64_t skip, std::int64_t limit) {
    hits.erase(hits.begin(), hits.begin() + std::min<std::int64_t>(skip, std::ssize(hits)));
    if (limit > 0 && limit < std::ssize(hits)) hits.erase(hits.begin() + limit, hits.end());
  }

  Status project(std::vector<Hit>& hits, DocumentView spec, ProjectionKind kind,
                 const Matcher* matcher) {
    MULTIFORA_ASSIGN(const auto projection,
                     Projection::parse(spec, kind, matcher, matcher_options(), *scope_));
    for (Hit& hit : hits) {
      Buffer out;
      const ProjectionInput input{hit.document.view(), &hit.details};
      MULTIFORA_TRY(projection->apply(input, *context_, out));
      hit.document = OwnedDocument::assume_valid(std::move(out));
    }
    return {};
  }

  // Nobody asks for more than the first batch.
  static OwnedDocument cursor(const std::vector<Hit>& all) {
    constexpr std::size_t kBatch = 101;
    const std::vector<Hit> hits(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(kBatch, all.size())));
    DocumentBuilder reply;
    {
      DocumentBuilder cursor = reply.object("cursor");
      ArrayBuilder batch = cursor.array("firstBatch");
      for (const Hit& hit : hits) batch.append(hit.document.view());
    }
    return std::move(reply).finish();
  }

  Result<OwnedDocument> find() {
    known_options({"filter", "sort", "skip", "limit", "projection"});
    MULTIFORA_ASSIGN_R(auto matcher, Matcher::compile(document_or_empty(command_["filter"]),
                                                      matcher_options()));
    std::unique_ptr<const Projection> check;
    if (!command_["projection"].missing()) {
      MULTIFORA_ASSIGN_R(check, Projection::parse(document_or_empty(command_["projection"]),
                                                  ProjectionKind::kFind, matcher.get(),
                                                  matcher_options(), *scope_));
    }
    MULTIFORA_ASSIGN_R(auto hits, filter(collection(), *matcher));
    if (!command_["sort"].missing())
      MULTIFORA_TRY_R(sort(hits, document_or_empty(command_["sort"])));
    cut(hits, command_["skip"].number_as_int64(), command_["limit"].number_as_int64());
    if (!command_["projection"].missing())
      MULTIFORA_TRY_R(project(hits, command_["projection"].as_document(), ProjectionKind::kFind,
                              matcher.get()));
    return cursor(hits);
  }

  Result<OwnedDocument> count() {
    known_options({"query", "skip", "limit"});
    MULTIFORA_ASSIGN_R(auto matcher, Matcher::compile(document_or_empty(command_["query"]),
                                                      matcher_options()));
    MULTIFORA_ASSIGN_R(auto hits, filter(collection(), *matcher));
    cut(hits, command_["skip"].number_as_int64(),
        std::abs(command_["limit"].number_as_int64()));
    DocumentBuilder reply;
    reply.append("n", static_cast<std::int32_t>(hits.size()));
    return std::move(reply).finish();
  }

  Result<OwnedDocument> distinct() {
    known_options({"query", "key"});
    throw Unsupported{"distinct"};
  }

  Status run_stage(const Element& stage, std::vector<Hit>& hits) {
    if (stage.name() == "$match") {
      if (stage.type() != BsonType::kObject) throw Unsupported{"$match"};
      MULTIFORA_ASSIGN(auto matcher, Matcher::compile(stage->as_document(), matcher_options()));
      std::vector<Hit> kept;
      for (Hit& hit : hits) {
        MULTIFORA_ASSIGN(const bool found, matcher->matches(hit.document.view(), &*context_));
        if (found) kept.push_back(std::move(hit));
      }
      hits = std::move(kept);
      return {};
    }
    if (stage.name() == "$sort") return sort(hits, document_or_empty(stage.value()));
    if (stage.name() == "$skip" || stage.name() == "$limit") {
      const std::int64_t n = stage->number_as_int64();
      cut(hits, stage.name() == "$skip" ? n : 0, stage.name() == "$limit" ? n : 0);
      return {};
    }
    if (stage.name() == "$project")
      return project(hits, document_or_empty(stage.value()), ProjectionKind::kProject, nullptr);
    if (stage.name() == "$addFields" || stage.name() == "$set")
      return project(hits, document_or_empty(stage.value()), ProjectionKind::kAddFields, nullptr);
    throw Unsupported{std::string(stage.name())};
  }

  Result<OwnedDocument> aggregate() {
    if (aggregate_runner != nullptr) return aggregate_runner(command_, collections_);
    known_options({"pipeline", "cursor"});
    std::vector<Hit> hits;
    for (const OwnedDocument& document : collection()) hits.push_back({document, {}, 0});
    for (const Element& element : command_["pipeline"].as_document())
      MULTIFORA_TRY_R(run_stage(element->as_document().first(), hits));
    return cursor(hits);
  }

  // ---- Writes ----

  struct WriteResult {
    std::int32_t n = 0;
    std::int32_t modified = 0;
    std::optional<OwnedDocument> upserted;  // {_id: ...}
  };

  Result<std::unique_ptr<const Update>> compile_update(const ValueView& spec, bool upsert,
                                                       const ValueView& array_filters,
                                                       const ValueView& constants) {
    UpdateOptions options;
    options.upsert = upsert;
    if (!array_filters.missing()) options.array_filters = array_filters.as_document();
    if (!constants.missing()) options.constants = constants.as_document();
    return Update::compile(spec, options, *scope_);
  }

  Result<OwnedDocument> apply(const Update& update, DocumentView document,
                              const MatchDetails& details, bool is_insert, bool& changed) {
    UpdateInput input;
    input.document = document;
    input.match = &details;
    input.is_insert = is_insert;
    input.now_ms = kNowMs;
    input.cluster_time = kClusterTime;
    Buffer out = "before";  // updates append
    MULTIFORA_ASSIGN_R(changed, update.apply(input, *context_, out));
    return OwnedDocument::assume_valid(out.substr(6));
  }

  Result<OwnedDocument> upsert(const Update& update, const Matcher& matcher) {
    MULTIFORA_ASSIGN_R(const OwnedDocument seed, upsert_seed(matcher, update.is_replacement()));
    bool changed = false;
    MULTIFORA_ASSIGN_R(const OwnedDocument made,
                       apply(update, seed.view(), {}, true, changed));
    insert(collection(), made.view());
    return collection().back();
  }

  Result<WriteResult> update_one_statement(DocumentView statement) {
    if (!statement["collation"].missing()) throw Unsupported{"collation"};
    if (!statement["hint"].missing()) throw Unsupported{"hint"};
    if (statement["q"].missing() || statement["u"].missing() ||
        (!statement["multi"].missing() && statement["multi"].type() != BsonType::kBool))
      throw Unsupported{"an update's arguments"};
    const bool multi = statement["multi"].truthy();
    const bool may_upsert = statement["upsert"].truthy();
    MULTIFORA_ASSIGN_R(auto matcher,
                       Matcher::compile(document_or_empty(statement["q"]),
                                        matcher_options(!may_upsert)));
    MULTIFORA_ASSIGN_R(auto update, compile_update(statement["u"], may_upsert,
                                                   statement["arrayFilters"], statement["c"]));
    if (multi && update->is_replacement())
      return fail(ErrorCode::kFailedToParse, "multi update is not supported for replacement-style "
                                             "update");
    WriteResult result;
    for (OwnedDocument& document : collection()) {
      MatchDetails details;
      MULTIFORA_ASSIGN_R(const bool found,
                         matcher->matches(document.view(), &*context_, &details));
      if (!found) continue;
      bool changed = false;
      MULTIFORA_ASSIGN_R(OwnedDocument after,
                         apply(*update, document.view(), details, false, changed));
      document = std::move(after);
      ++result.n;
      result.modified += changed ? 1 : 0;
      if (!multi) break;
    }
    if (result.n == 0 && may_upsert) {
      MULTIFORA_ASSIGN_R(const OwnedDocument made, upsert(*update, *matcher));
      DocumentBuilder id;
      id.append("_id", made.view()["_id"]);
      result.upserted = std::move(id).finish();
      result.n = 1;
    }
    return result;
  }

  Result<OwnedDocument> update() {
    known_options({"updates", "ordered"});
    if (command_["updates"].type() != BsonType::kArray) throw Unsupported{"updates"};
    const bool ordered = command_["ordered"].missing() || command_["ordered"].truthy();
    std::int32_t n = 0;
    std::int32_t modified = 0;
    std::int32_t index = -1;
    ArrayBuilder upserted;
    ArrayBuilder errors;
    for (const Element& element : command_["updates"].as_document()) {
      ++index;
      for (const Element& option : element->as_document())
        if (!std::set<std::string_view>{"q", "u", "multi", "upsert", "arrayFilters", "collation",
                                        "c", "hint"}
                 .contains(option.name()))
          throw Unsupported{"option of an update"};
      auto result = update_one_statement(element->as_document());
      if (!result) {
        errors.object()
            .append("index", index)
            .append("code", static_cast<std::int32_t>(result.error().code()));
        if (ordered) break;
        continue;
      }
      n += result->n;
      modified += result->modified;
      if (result->upserted)
        upserted.object().append("index", index).append("_id", result->upserted->view()["_id"]);
    }
    DocumentBuilder reply;
    reply.append("n", n).append("nModified", modified);
    const bool any_upserted = upserted.count() > 0;
    const OwnedDocument upserted_list = std::move(upserted).finish();
    if (any_upserted) reply.append_array("upserted", upserted_list.view());
    const bool any_errors = errors.count() > 0;
    const OwnedDocument error_list = std::move(errors).finish();
    if (any_errors) reply.append_array("writeErrors", error_list.view());
    return std::move(reply).finish();
  }

  Result<OwnedDocument> remove() {
    known_options({"deletes"});
    if (command_["deletes"].type() != BsonType::kArray ||
        command_["deletes"].as_document().empty())
      throw Unsupported{"deletes"};
    std::int32_t n = 0;
    for (const Element& element : command_["deletes"].as_document()) {
      const DocumentView statement = element->as_document();
      std::int64_t limit = -1;
      if (statement.count() != 2 || !statement["limit"].exact_int64(&limit) || limit < 0 ||
          limit > 1)
        throw Unsupported{"delete"};
      auto matcher = Matcher::compile(document_or_empty(statement["q"]), matcher_options());
      if (!matcher) throw Unsupported{"errors of delete"};
      MULTIFORA_ASSIGN_R(auto hits, filter(collection(), **matcher));
      if (statement["limit"].truthy()) cut(hits, 0, 1);
      n += static_cast<std::int32_t>(hits.size());
      for (auto hit = hits.rbegin(); hit != hits.rend(); ++hit)
        collection().erase(collection().begin() + static_cast<std::ptrdiff_t>(hit->index));
    }
    DocumentBuilder reply;
    reply.append("n", n);
    return std::move(reply).finish();
  }

  Result<OwnedDocument> insert_command() {
    known_options({"documents"});
    std::int32_t n = 0;
    for (const Element& element : command_["documents"].as_document()) {
      insert(collection(), element->as_document());
      ++n;
    }
    DocumentBuilder reply;
    reply.append("n", n);
    return std::move(reply).finish();
  }

  Result<OwnedDocument> find_and_modify() {
    known_options({"query", "sort", "remove", "update", "new", "fields", "upsert",
                   "arrayFilters"});
    const bool removing = command_["remove"].truthy();
    const bool wants_new = command_["new"].truthy();
    const bool may_upsert = command_["upsert"].truthy();
    if (removing == !command_["update"].missing() ||
        (removing && (wants_new || may_upsert || !command_["arrayFilters"].missing())))
      throw Unsupported{"findAndModify's arguments"};
    MULTIFORA_ASSIGN_R(auto matcher, Matcher::compile(document_or_empty(command_["query"]),
                                                      matcher_options(!may_upsert)));
    std::unique_ptr<const Update> update;
    if (!removing) {
      MULTIFORA_ASSIGN_R(update, compile_update(command_["update"], may_upsert,
                                                command_["arrayFilters"], {}));
    }
    MULTIFORA_ASSIGN_R(auto hits, filter(collection(), *matcher));
    if (!command_["sort"].missing())
      MULTIFORA_TRY_R(sort(hits, document_or_empty(command_["sort"])));
    cut(hits, 0, 1);
    DocumentBuilder reply;
    DocumentBuilder last = reply.object("lastErrorObject");
    const bool found = !hits.empty();
    std::vector<Hit> value = hits;
    if (found && removing) {
      collection().erase(collection().begin() + static_cast<std::ptrdiff_t>(hits[0].index));
    } else if (found) {
      bool changed = false;
      MULTIFORA_ASSIGN_R(OwnedDocument after, apply(*update, hits[0].document.view(),
                                                    hits[0].details, false, changed));
      if (wants_new) value[0].document = after;
      collection()[hits[0].index] = std::move(after);
    } else if (may_upsert) {
      MULTIFORA_ASSIGN_R(const OwnedDocument made, upsert(*update, *matcher));
      if (wants_new) value.push_back({made, {}, 0});
      last.append("upserted", made.view()["_id"]);
    }
    last.append("n", static_cast<std::int32_t>(found || (may_upsert && !removing)));
    if (!removing) last.append("updatedExisting", found);
    last.close();
    if (!command_["fields"].missing())
      MULTIFORA_TRY_R(project(value, document_or_empty(command_["fields"]), ProjectionKind::kFind,
                              matcher.get()));
    if (value.empty())
      reply.append_null("value");
    else
      reply.append("value", value[0].document.view());
    return std::move(reply).finish();
  }

  std::map<std::string, Documents> collections_;
  DocumentView command_;
  std::optional<VariableScope> scope_;
  std::optional<EvalContext> context_;
};

// ---- Cases ----

std::string check_error(const Json& want, const Result<OwnedDocument>& got) {
  if (want.value("any", false)) {
    if (!got) return {};
    if (want.value("orWriteError", false) && !got->view()["writeErrors"].missing()) return {};
    return "wanted an error, got " + show(as_value(got->view()));
  }
  if (got) return fmt::format("wanted error {}, got {}", want.dump(), show(as_value(got->view())));
  const int code = std::stoi(want["code"]["$numberInt"].get<std::string>());
  if (code != static_cast<int>(got.error().code()))
    return fmt::format("wanted code {}, got {} ({})", code,
                       static_cast<int>(got.error().code()), got.error().message());
  if (want.contains("codeName") && want["codeName"].get<std::string>() != got.error().code_name())
    return "wanted codeName " + want["codeName"].dump() + ", got " + got.error().code_name();
  return {};
}

std::string check_step(const Json& expect, const Result<OwnedDocument>& got) {
  if (expect.contains("error")) return check_error(expect["error"], got);
  if (!got)
    return fmt::format("wanted a reply, got error {} {}", static_cast<int>(got.error().code()),
                       got.error().message());
  Looseness loose;
  if (expect.contains("sets"))
    for (const Json& path : expect["sets"]) loose.sets.insert(path.get<std::string>());
  if (expect.contains("approx"))
    loose.approx = std::strtod(expect["approx"]["$numberDouble"].get<std::string>().c_str(), nullptr);
  loose.decimal_by_value = expect.value("decimalByValue", false);
  loose.fields_any_order = expect.value("fieldsAnyOrder", false);
  const OwnedDocument want = to_bson(expect["reply"]);
  return compare(as_value(want.view()), as_value(got->view()), loose, "");
}

std::string run_case(const Json& json, const Json& fixtures) {
  Json setup = json.value("setup", Json::object());
  if (setup.contains("fixture")) setup = fixtures[setup["fixture"].get<std::string>()];
  Database database(setup);
  std::size_t index = 0;
  for (const Json& step : json["steps"]) {
    for (const auto& [key, value] : step.items())
      if (key != "command") throw Unsupported{"step option " + key};
    const OwnedDocument command = to_bson(step["command"]);
    const std::string wrong = check_step(json["expect"][index], database.run(command.view()));
    if (!wrong.empty())
      return fmt::format("{} step {}: {}", json["id"].get<std::string>(), index, wrong);
    ++index;
  }
  return {};
}

}  // namespace

void use_aggregate_runner(AggregateRunner runner) { aggregate_runner = runner; }

Outcome run_groups(const std::vector<std::string>& groups, const std::set<std::string>& except) {
  Outcome outcome;
  std::ifstream fixtures_file(corpus() / "cases" / "fixtures.json");
  if (!fixtures_file) return outcome;
  const Json fixtures = Json::parse(fixtures_file);
  const char* only = std::getenv("GOLDEN_ID");
  for (const std::string& group : groups) {
    std::ifstream file(corpus() / "cases" / (group + ".jsonl"));
    for (std::string line; std::getline(file, line);) {
      const Json json = Json::parse(line);
      if (only != nullptr && json["id"] != only) continue;
      if (except.contains(json["id"].get<std::string>())) continue;
      try {
        std::string wrong = run_case(json, fixtures);
        if (wrong.empty())
          ++outcome.passed;
        else
          outcome.failures.push_back(std::move(wrong));
      } catch (const Unsupported&) {
        ++outcome.skipped;
      }
    }
  }
  return outcome;
}

}  // namespace multifora::golden
