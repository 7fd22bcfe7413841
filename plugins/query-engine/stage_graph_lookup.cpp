// $graphLookup: breadth first, one query a level; every document found once.
#include <unordered_set>

#include <fmt/format.h>

#include "core/bson/key_string.h"
#include "core/bson/path.h"
#include "plugins/query-engine/document_edit.h"
#include "plugins/query-engine/matcher.h"
#include "plugins/query-engine/stage.h"
#include "plugins/query-engine/value_set.h"

namespace multifora {
namespace {

using enum BsonType;

struct GraphSpec {
  std::string from, connect_from, connect_to, as, depth_field;
  std::optional<std::int64_t> depth_max;
  ExpressionPtr start;
  OwnedDocument restrict_to;
};

class GraphLookupStage final : public PipelineStage {
 public:
  GraphLookupStage(PipelineContext& context, GraphSpec spec, std::unique_ptr<PipelineContext> sub)
      : PipelineStage(context), spec_(std::move(spec)), sub_(std::move(sub)) {}

  Result<std::optional<DocumentView>> next() override {
    MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, source_->next());
    if (!d) return std::nullopt;
    found_.clear();
    ArrayBuilder found(&found_);
    MULTIFORA_TRY_R(search(*d, found));
    found.close();
    out_.clear();
    append_with_path(out_, *d, spec_.as,
                     as_value(DocumentView::assume_valid(Bytes(found_)), kArray));
    MULTIFORA_TRY_R(check_document_size(out_.size()));
    return DocumentView::assume_valid(Bytes(out_));
  }
  Status attach() override {
    refresh_sub_context(*sub_, context());
    return {};
  }
  std::string_view name() const override { return "$graphLookup"; }
  void append_to(ArrayBuilder& out) const override {
    DocumentBuilder self = out.object();
    DocumentBuilder spec = self.object("$graphLookup");
    spec.append("from", spec_.from);
    spec.append("as", spec_.as);
    spec.append("connectToField", spec_.connect_to);
    spec.append("connectFromField", spec_.connect_from);
    spec_.start->append_to(spec, "startWith");
    if (!spec_.depth_field.empty()) spec.append("depthField", spec_.depth_field);
    if (spec_.depth_max) spec.append("maxDepth", *spec_.depth_max);
    if (!spec_.restrict_to.view().empty())
      spec.append("restrictSearchWithMatch", spec_.restrict_to.view());
  }
  Needs add_dependencies(std::vector<std::string>& paths) const override {
    return spec_.start->add_dependencies(paths) ? Needs::kNext : Needs::kWhole;
  }

 private:
  Status search(DocumentView document, ArrayBuilder& out) {
    context().eval.root = document;
    MULTIFORA_ASSIGN(const Value start, spec_.start->evaluate(context().eval));
    std::vector<Value> frontier;
    if (start.type() == kArray) {
      for (const Element& e : start.view().as_document())
        frontier.push_back(Value(e.value()).own());
    } else {
      frontier.push_back(start.missing() ? Value::null() : start.own());
    }
    std::unordered_set<std::string> seen_ids;  // key strings of _id
    Asked asked(16, {context().collator.get()}, {context().collator.get()});
    std::uint64_t bytes = 0;
    for (std::int64_t depth = 0;
         !frontier.empty() && (!spec_.depth_max || depth <= *spec_.depth_max); ++depth) {
      std::vector<Value> next;
      MULTIFORA_TRY(level(frontier, depth, seen_ids, asked, next, bytes, out));
      frontier = std::move(next);
    }
    return {};
  }

  struct Hash {
    const Collator* collator;
    std::size_t operator()(const Value& v) const { return hash_value(v.view(), 0, collator); }
  };
  struct Equal {
    const Collator* collator;
    bool operator()(const Value& a, const Value& b) const {
      return equal_values(a.view(), b.view(), collator);
    }
  };
  using Asked = std::unordered_set<Value, Hash, Equal>;

  OwnedDocument level_match(const std::vector<Value>& wanted) const {
    DocumentBuilder stage;
    {
      DocumentBuilder match = stage.object("$match");
      ArrayBuilder both = match.array("$and");
      if (!spec_.restrict_to.view().empty()) both.append(spec_.restrict_to.view());
      bool regex = false;
      for (const Value& v : wanted) regex = regex || v.type() == kRegex;
      DocumentBuilder condition = both.object();
      if (regex) {
        ArrayBuilder any = condition.array("$or");
        for (const Value& v : wanted) {
          DocumentBuilder one = any.object();
          one.object(spec_.connect_to).append("$eq", v.view());
        }
      } else {
        DocumentBuilder in = condition.object(spec_.connect_to);
        ArrayBuilder values = in.array("$in");
        for (const Value& v : wanted) values.append(v.view());
      }
    }
    return std::move(stage).finish();
  }

  Status level(const std::vector<Value>& frontier, std::int64_t depth,
               std::unordered_set<std::string>& seen_ids, Asked& asked, std::vector<Value>& next,
               std::uint64_t& bytes, ArrayBuilder& out) {
    std::vector<Value> wanted;
    for (const Value& v : frontier)
      if (asked.insert(v).second) wanted.push_back(v);
    if (wanted.empty()) return {};
    std::vector<OwnedDocument> stages;
    stages.push_back(level_match(wanted));
    MULTIFORA_ASSIGN(
        const auto pipeline,
        context().open_pipeline(*sub_, context().db + "." + spec_.from, std::move(stages)));
    while (true) {
      MULTIFORA_TRY(poll());
      MULTIFORA_ASSIGN(const std::optional<DocumentView> d, pipeline->next());
      if (!d) return {};
      KeyStringBuilder id;
      id.append((*d)["_id"]);
      if (!seen_ids.insert(id.key()).second) continue;
      bytes += d->size_bytes() + id.key().size() + 64;
      if (bytes > context().memory_limit_bytes)
        return {location_code(40099), "$graphLookup reached maximum memory consumption"};
      add_connections(*d, next);
      append_found(*d, depth, out);
    }
  }

  void add_connections(DocumentView d, std::vector<Value>& next) const {
    visit_path(d, FieldPath(spec_.connect_from), true, [&](const PathHit& hit) {
      if (hit.value.missing() || (hit.value.type() == kArray && !hit.array_element)) return true;
      next.push_back(Value(hit.value).own());
      return true;
    });
  }

  void append_found(DocumentView d, std::int64_t depth, ArrayBuilder& out) {
    if (spec_.depth_field.empty()) {
      out.append(d);
      return;
    }
    Buffer with_depth;
    const Value number = Value::of(depth);
    append_with_path(with_depth, d, spec_.depth_field, number.view());
    out.append(DocumentView::assume_valid(Bytes(with_depth)));
  }

  GraphSpec spec_;
  std::unique_ptr<PipelineContext> sub_;
  Buffer found_, out_;
};

Status read_field(const Element& e, std::string& out) {
  if (e.type() != kString)
    return {location_code(40103), fmt::format("expected string as argument for {}, found: {}",
                                              e.name(), type_text(e.value()))};
  out = e->as_string();
  return {};
}

Status read_option(const Element& e, PipelineContext& context, GraphSpec& spec) {
  if (e.name() == "startWith") {
    MULTIFORA_ASSIGN(spec.start, parse_expression(e.value(), context.scope));
    return {};
  }
  if (e.name() == "maxDepth") {
    std::int64_t n = 0;
    if (!e->is_number())
      return {location_code(40100),
              fmt::format("maxDepth requires a numeric argument, found type: {}",
                          type_text(e.value()))};
    if (e->number_as_double() < 0)
      return {location_code(40101),
              fmt::format("maxDepth requires a nonnegative argument, found: {}",
                          value_text(e.value()))};
    if (!e->exact_int64(&n))
      return {location_code(40102),
              fmt::format("maxDepth could not be represented as a long long: {}",
                          value_text(e.value()))};
    spec.depth_max = n;
    return {};
  }
  if (e.name() == "restrictSearchWithMatch") {
    if (e.type() != kObject)
      return {
          location_code(40185),
          fmt::format("restrictSearchWithMatch must be an object, found {}", type_text(e.value()))};
    MULTIFORA_ASSIGN([[maybe_unused]] const auto matcher,
                     Matcher::compile(e->as_document(), {.collator = context.collator.get(),
                                                         .scope = &context.scope}));
    spec.restrict_to = OwnedDocument(e->as_document());
    return {};
  }
  if (e.name() == "from") return read_field(e, spec.from);
  std::string* field = e.name() == "as"                 ? &spec.as
                       : e.name() == "connectFromField" ? &spec.connect_from
                       : e.name() == "connectToField"   ? &spec.connect_to
                       : e.name() == "depthField"       ? &spec.depth_field
                                                        : nullptr;
  if (field == nullptr)
    return {location_code(40104), fmt::format("Unknown argument to $graphLookup: {}", e.name())};
  MULTIFORA_TRY(read_field(e, *field));
  return check_field_path(*field);
}

Status parse_graph_lookup(const StageRow&, const ValueView& value, PipelineContext& context,
                          StageList& out) {
  if (value.type() != kObject)
    return {location_code(40327),
            fmt::format("the $graphLookup stage specification must be an object, but found {}",
                        type_text(value))};
  GraphSpec spec;
  for (const Element& e : value.as_document()) MULTIFORA_TRY(read_option(e, context, spec));
  if (spec.from.empty() || !spec.start || spec.connect_from.empty() || spec.connect_to.empty() ||
      spec.as.empty())
    return {location_code(40105),
            "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and "
            "'connectToField' to be specified."};
  MULTIFORA_ASSIGN(auto sub, make_sub_context(context, spec.from));
  out.push_back(std::make_unique<GraphLookupStage>(context, std::move(spec), std::move(sub)));
  return {};
}

constexpr StageRow kRows[] = {{"$graphLookup", parse_graph_lookup}};

}  // namespace

std::span<const StageRow> graph_lookup_stages() {
  return kRows;
}

}  // namespace multifora
