// An index of one registered kind over a pager in memory, with a model beside it: the set of
// entries that it must hold. What a document's keys are, the index itself says (extract); what must
// follow from them, the model says.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/bson/view.h"
#include "core/plugin/host.h"
#include "core/plugin/index.h"
#include "core/storage/pager.h"
#include "tests/support/fault_file_system.h"
#include "tests/support/random_bson.h"

namespace multifora::contract {

// A kind and a specification that it claims.
struct Subject {
  const IndexKind* kind = nullptr;
  std::string json;
  OwnedDocument spec;  // normalised
  IndexSpec open_spec() const;
  bool unique() const { return spec.view()["unique"].truthy(); }
  // The name of its only field; empty for compound patterns, paths and special kinds.
  std::string single_field() const;
  bool descending() const;
};

// Every registered kind with each of the known specifications that it claims.
std::vector<Subject> subjects(const PluginHost& host);

class Bench {
 public:
  using Entry = std::pair<Buffer, RecordId>;
  using Model = std::map<Entry, Buffer>;  // -> type bits

  Bench(const PluginHost& host, const Subject& subject, std::uint64_t seed);
  ~Bench();

  // False where the index refuses the document (parallel arrays ...). Then nothing is changed.
  bool insert(DocumentView document, RecordId id);
  void remove(DocumentView document, RecordId id);
  // `count` random inserts and removes. A unique index gets no document that would clash.
  void churn(int count);

  Index& index() { return *index_; }
  const Model& model() const { return model_; }
  Pager& pager() { return *pager_; }
  FaultFileSystem& files() { return files_; }
  test::RandomBson& random() { return random_; }
  std::uint64_t multikey_seen() const { return multikey_seen_; }
  const std::map<RecordId, OwnedDocument>& documents() const { return documents_; }

  std::unique_ptr<Index> open(const IndexState& state);
  void checkpoint();
  // Checkpoint, then everything anew from the file.
  void reopen();
  void close_pager() { index_.reset(), pager_.reset(); }
  Status open_pager();

  // --- the checks ---
  // Entries from the first (or last) on, as the cursor gives them.
  static Result<Model> walk(const Index& index, const IndexState& state);
  void check_walk(const Index& index, const IndexState& state, const Model& expected);
  void check_seeks(const Index& index, const IndexState& state, const Model& expected, int count);
  void check_counts(const Index& index, const IndexState& state, const Model& expected, int count);
  // check(), stats(), and that the index has every page that the file counts as used.
  void check_structure();
  void check_all();
  std::vector<PageId> pages();

  // A random document with the fields that the specifications name.
  OwnedDocument document();

 private:
  Buffer random_bound(const Model& expected);
  bool would_clash(const IndexKeySet& keys) const;

  const PluginHost& host_;
  const Subject& subject_;
  FaultFileSystem files_;
  MetricsRegistry metrics_;
  std::unique_ptr<Pager> pager_;
  std::unique_ptr<Index> index_;
  test::RandomBson random_;
  Model model_;
  std::map<RecordId, OwnedDocument> documents_;
  std::uint64_t multikey_seen_ = 0;
  RecordId next_id_ = 1;
};

}  // namespace multifora::contract
