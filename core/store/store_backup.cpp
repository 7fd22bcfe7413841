// Copies of a running database: the image of a fresh checkpoint, complete in itself.
#include "core/store/store_impl.h"

namespace multifora {
namespace {

constexpr std::string_view kPartial = ".partial";

std::string without_slashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return path.substr(0, slash == 0 ? 1 : slash);
}

Status check_target(FileSystem& files, const std::string& target, const std::string& own) {
  if (target.empty() || target.front() != '/')
    return {ErrorCode::kBadValue, "the directory of a backup must be an absolute path, not '" +
                                      target + "'"};
  if ((target + "/").starts_with(own + "/"))
    return {ErrorCode::kBadValue,
            "the directory of a backup must not lie in the database directory " + own};
  if (!files.exists(target)) return {};
  const auto names = files.list(target);
  if (names && names->empty()) return {};
  return {ErrorCode::kBadValue,
          target + " is there already and no empty directory; choose another one"};
}

// What is left of an attempt that did not end well.
void remove_partial(FileSystem& files, const std::string& partial) {
  if (!files.exists(partial)) return;
  static_cast<void>(files.remove(partial + "/data.mfdb"));
  static_cast<void>(files.remove(partial));
}

}  // namespace

// Under another name until it is whole, so that nobody starts a server on half a backup.
Result<Store::BackupReport> Store::backup(const std::string& directory, Interrupt& interrupt) {
  Impl& impl = *impl_;
  const std::int64_t started_us = impl.host.clock().monotonic_us();
  const std::string target = without_slashes(directory);
  MULTIFORA_TRY_R(check_target(impl.files, target, without_slashes(impl.options.path)));
  const std::unique_lock one(impl.backup_mutex, std::try_to_lock);
  if (!one)
    return fail(ErrorCode::kIllegalOperation, "another backup is being made; wait until it ends");
  if (Status status = impl.checkpoint(); !status.ok())
    return fail(std::move(status).with_context("a backup begins with a checkpoint, which failed"));

  const std::string partial = target + std::string(kPartial);
  remove_partial(impl.files, partial);
  const auto progress = [&](std::uint64_t done, std::uint64_t total) -> Status {
    impl.backup_total = total;
    impl.backup_done = done;
    return interrupt.check_slow();
  };
  impl.backup_running = true;
  const auto copy = [&]() -> Result<Pager::Copied> {
    MULTIFORA_TRY_R(impl.files.create_directory(partial));
    MULTIFORA_ASSIGN_R(const Pager::Copied copied,
                       impl.pager->copy_checkpoint(impl.files, partial + "/data.mfdb", progress));
    MULTIFORA_TRY_R(impl.files.sync_directory(partial));
    MULTIFORA_TRY_R(impl.files.rename(partial, target));
    MULTIFORA_TRY_R(impl.files.sync_directory(parent_of(target)));
    return copied;
  };
  const Result<Pager::Copied> copied = copy();
  impl.backup_running = false;
  if (!copied) {
    remove_partial(impl.files, partial);
    return fail(copied.error());
  }
  BackupReport report{copied->position, copied->file_bytes, copied->copied_bytes,
                      (impl.host.clock().monotonic_us() - started_us) / 1000};
  impl.host.log().event(LogLevel::kInfo, "store", "A backup was made",
                        {{"directory", std::string_view(target)},
                         {"bytes", static_cast<std::int64_t>(report.copied_bytes)},
                         {"ms", report.ms}});
  return report;
}

std::optional<Store::BackupProgress> Store::backup_progress() const {
  if (!impl_->backup_running) return std::nullopt;
  return BackupProgress{impl_->backup_done, impl_->backup_total};
}

}  // namespace multifora
