// multiforadb inspect: meta pages, log, space and trees, as text or JSON. Works as far as the files
// can be read: what cannot be opened is reported in its place.
#include <algorithm>
#include <iostream>
#include <map>

#include "core/bson/extended_json.h"
#include "core/storage/meta_page.h"
#include "core/storage/wal_inspect.h"
#include "server/tools/offline.h"

namespace multifora::tools {
namespace {

std::int64_t number(std::uint64_t value) { return static_cast<std::int64_t>(value); }

std::string hex(Bytes bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Status add_metas(FileSystem& files, const std::string& path, DocumentBuilder& out) {
  MULTIFORA_ASSIGN(const auto file, files.open(path, OpenMode::kReadOnly));
  MULTIFORA_ASSIGN(const std::uint64_t size, file->size());
  out.append("data_file", path).append("data_file_bytes", number(size));
  MULTIFORA_ASSIGN(const auto slots, report_metas(*file));
  auto rows = out.array("meta_pages");
  for (const MetaSlotReport& slot : slots) {
    auto row = rows.object();
    row.append("offset", number(slot.offset)).append("state", slot.state);
    row.append("version", static_cast<std::int64_t>(slot.version));
    row.append("page_size", static_cast<std::int64_t>(slot.page_size));
    if (!slot.meta) continue;
    const MetaPage& meta = *slot.meta;
    row.append("file_uuid", hex(Bytes(meta.uuid.data(), meta.uuid.size())));
    row.append("checkpoint", number(meta.checkpoint));
    row.append("generation", number(meta.generation));
    row.append_timestamp("position", meta.position);
    row.append("chunks", number(meta.chunk_count));
    row.append("directory_pages", number(meta.directory_pages.size()));
  }
  return {};
}

std::string_view kind_name(wal::BlockKind kind) {
  switch (kind) {
    case wal::BlockKind::kWhole: return "whole";
    case wal::BlockKind::kFirst: return "first";
    case wal::BlockKind::kMiddle: return "middle";
    case wal::BlockKind::kLast: return "last";
  }
  return "?";
}

void add_block(const LogBlockReport& block, DocumentBuilder row) {
  const wal::BlockHeader& header = block.header;
  row.append("offset", number(block.file_offset)).append("kind", kind_name(header.kind));
  row.append_timestamp("after", header.after).append_timestamp("last", header.last);
  row.append_timestamp("durable", header.durable);
  row.append("stored_bytes", static_cast<std::int64_t>(header.stored_size));
  row.append("raw_bytes", static_cast<std::int64_t>(header.raw_size));
  row.append("compressed", header.coding == wal::BlockCoding::kCodec);
  row.append("batches", block.batches).append("follows", block.chained);
  row.append("session", static_cast<std::int32_t>(header.session));
}

struct SegmentRows {
  LogSegmentReport segment;
  std::vector<LogBlockReport> blocks;
};

void add_segment(const SegmentRows& rows, bool with_blocks, DocumentBuilder row) {
  row.append("name", rows.segment.name).append("bytes", number(rows.segment.size_bytes));
  if (rows.segment.damage.empty())
    row.append("codec", rows.segment.codec);
  else
    row.append("damage", rows.segment.damage);
  row.append("blocks", number(rows.blocks.size()));
  if (rows.blocks.empty()) return;
  std::uint64_t used = 0;
  LogPosition first = rows.blocks.front().header.after, last = 0, durable = 0;
  for (const LogBlockReport& block : rows.blocks) {
    used += wal::kBlockHeaderSize + block.header.stored_size;
    last = std::max(last, block.header.last);
    durable = std::max(durable, block.header.durable);
  }
  row.append("block_bytes", number(used)).append_timestamp("after", first);
  row.append_timestamp("last", last).append_timestamp("durable", durable);
  if (!with_blocks) return;
  auto list = row.array("block_list");
  for (const LogBlockReport& block : rows.blocks) add_block(block, list.object());
}

Status add_log(FileSystem& files, const std::string& directory, bool with_blocks,
               DocumentBuilder& out) {
  std::vector<SegmentRows> all;
  if (files.exists(directory))
    MULTIFORA_TRY(inspect_log(
        files, directory, [&](const LogSegmentReport& segment) { all.push_back({segment, {}}); },
        [&](const LogBlockReport& block) { all.back().blocks.push_back(block); }));
  auto list = out.array("log_segments");
  for (const SegmentRows& rows : all) add_segment(rows, with_blocks, list.object());
  return {};
}

// Objects are indented, rows of a list take a line each.
void print_text(DocumentView document, const std::string& indent) {
  for (const Element& e : document) {
    std::cout << indent << e.name() << ":";
    if (e.type() == BsonType::kObject) {
      std::cout << "\n";
      print_text(e->as_document(), indent + "  ");
    } else if (e.type() == BsonType::kArray) {
      std::cout << "\n";
      for (const Element& row : e->as_document())
        std::cout << indent << "  " << to_extended_json(row.value()) << "\n";
    } else if (e.type() == BsonType::kString) {
      std::cout << " " << e->as_string() << "\n";
    } else {
      std::cout << " " << to_extended_json(e.value()) << "\n";
    }
  }
}

}  // namespace

int run_inspect(const Arguments& arguments) {
  const auto parsed = parse_offline("inspect", arguments, {"--json", "--blocks"});
  if (!parsed) return 2;
  const auto flag = [&](const char* name) {
    return std::find(parsed->flags.begin(), parsed->flags.end(), name) != parsed->flags.end();
  };
  auto database = OfflineDatabase::prepare(parsed->path, parsed->config);
  if (!database) {
    std::cerr << "multiforadb inspect: " << database.error().message() << "\n";
    return 1;
  }
  FileSystem& files = (*database)->files();
  DocumentBuilder out;
  bool good = true;
  const auto note = [&](const char* what, const Status& status) {
    if (status.ok()) return;
    good = false;
    out.append(what, status.message());
  };
  note("data_file_error", add_metas(files, parsed->path + "/data.mfdb", out));
  note("log_error", add_log(files, parsed->path + "/wal", flag("--blocks"), out));
  const Status opened = (*database)->open();
  note("open_error", opened);
  if (opened.ok()) {
    out.append("recovered_batches", number((*database)->report().recovered_batches));
    out.append("torn_tail_bytes", number((*database)->report().truncated_log_bytes));
    (*database)->store().describe(out);
  }
  const OwnedDocument document = std::move(out).finish();
  if (flag("--json"))
    std::cout << to_extended_json(document.view(), JsonMode::kRelaxed) << "\n";
  else
    print_text(document.view(), "");
  return good ? 0 : 1;
}

}  // namespace multifora::tools
