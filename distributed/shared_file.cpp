// A file in parts, by MPI-IO.
#include "shared_file.hpp"

#include "../ir/error.hpp"
#include "../ir/machine/output_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace topograd::distributed {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 28;  // counts of MPI are ints

std::string text_of(int error) {
  std::string text(MPI_MAX_ERROR_STRING, ' ');
  int length = 0;
  MPI_Error_string(error, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

/// The file that a path names, and how it can be replaced. Decided by rank 0.
struct Target {
  std::string path;
  mode_t permissions = 0666;  // of a new file, before the umask
  bool there = false, replaceable = true;

  explicit Target(const std::string& named) {
    std::error_code failed;
    const std::filesystem::path target = std::filesystem::weakly_canonical(named, failed);
    path = failed ? named : target.string();
    struct stat status {};
    there = ::stat(path.c_str(), &status) == 0;
    if (there) permissions = status.st_mode & 07777U;
    const std::string folder = target.parent_path().string();
    replaceable = !there || (S_ISREG(status.st_mode) && ::access(folder.c_str(), W_OK | X_OK) == 0);
  }
};

/// The positions in the file at which this rank's texts begin.
std::vector<std::uint64_t> places(const Communicator& ranks, std::span<const std::string> texts) {
  std::vector<std::uint64_t> sizes;
  for (const std::string& text : texts) sizes.push_back(text.size());
  std::vector<std::uint64_t> out = ranks.sum_before(sizes);
  ranks.sum(sizes);
  std::uint64_t first = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    out[k] += first;
    first += sizes[k];
  }
  return out;
}

/// Writes all texts; returns the first error of MPI on this rank.
int write_parts(const Communicator& ranks, const std::string& path,
                std::span<const std::string> texts) {
  const std::vector<std::uint64_t> at = places(ranks, texts);
  MPI_File file = MPI_FILE_NULL;
  int error = MPI_File_open(ranks.comm(), path.c_str(), MPI_MODE_CREATE | MPI_MODE_WRONLY,
                            MPI_INFO_NULL, &file);
  if (error != MPI_SUCCESS) return error;
  for (std::size_t k = 0; k < texts.size(); ++k) {
    std::uint64_t rounds = (texts[k].size() + kMost - 1) / kMost;
    MPI_Allreduce(MPI_IN_PLACE, &rounds, 1, MPI_UINT64_T, MPI_MAX, ranks.comm());
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::uint64_t first = std::min<std::uint64_t>(round * kMost, texts[k].size());
      const std::uint64_t count = std::min<std::uint64_t>(kMost, texts[k].size() - first);
      const int failed = MPI_File_write_at_all(file, static_cast<MPI_Offset>(at[k] + first),
                                               texts[k].data() + first, static_cast<int>(count),
                                               MPI_BYTE, MPI_STATUS_IGNORE);
      if (error == MPI_SUCCESS) error = failed;
    }
  }
  const int unsynced = MPI_File_sync(file);  // on the disk before it takes the place of another
  if (error == MPI_SUCCESS) error = unsynced;
  const int failed = MPI_File_close(&file);
  return error == MPI_SUCCESS ? failed : error;
}

/// The first reason that a rank has, on all of them.
std::string first_of(const Communicator& ranks, const std::string& why) {
  for (std::string& reason : ranks.gather_bytes(why))
    if (!reason.empty()) return std::move(reason);
  return "";
}

std::string write_on_first(const Communicator& ranks, const std::string& path,
                           std::span<const std::string> texts) {
  std::string all;
  for (const std::string& text : texts)
    for (const std::string& of_rank : ranks.gather_bytes(text)) all += of_rank;
  std::string why;
  if (ranks.rank() == 0 && !platform::write_output_file(path, std::as_bytes(std::span(all))))
    why = std::error_code(errno, std::generic_category()).message();
  return first_of(ranks, why);
}

}  // namespace

std::string replace_shared_file(const Communicator& ranks, const std::string& path,
                                std::span<const std::string> texts) {
  const Target target(path);
  if (ranks.from_first(target.replaceable ? 1 : 0) == 0) return write_on_first(ranks, path, texts);
  const std::string temporary = ranks.from_first(
      [&] { return target.path + "." + std::to_string(::getpid()) + ".parts.tmp"; });
  const int error = write_parts(ranks, temporary, texts);
  std::string why = first_of(ranks, error == MPI_SUCCESS ? "" : text_of(error));
  if (!why.empty()) {
    if (ranks.rank() == 0) ::unlink(temporary.c_str());
    return why;
  }
  if (ranks.rank() == 0) {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::chmod(temporary.c_str(), target.there ? target.permissions : target.permissions & ~mask);
    if (::rename(temporary.c_str(), target.path.c_str()) != 0) {
      why = std::error_code(errno, std::generic_category()).message();
      ::unlink(temporary.c_str());
    }
  }
  return first_of(ranks, why);
}

void write_shared_file(const Communicator& ranks, const std::string& path,
                       std::span<const std::string> texts) {
  const std::string why = replace_shared_file(ranks, path, texts);
  if (!why.empty()) throw Error(ErrorCode::File, path + ": cannot be written: " + why);
}

}  // namespace topograd::distributed
