// MPI behind the few exchanges that a distributed solve needs, and files in parts by MPI-IO.
#include "communicator.hpp"

#include <petscsys.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "../ir/error.hpp"
#include "../ir/machine/platform.hpp"
#include "../runtime/cache/content_hash.hpp"

namespace topograd::distributed {
namespace {

constexpr std::size_t kMostOfCall = std::size_t{1} << 28;  // counts of MPI are ints

/// Text of one rank on all of them.
std::string text_of(const std::string& text, int rank, const Communicator& of) {
  auto length = static_cast<std::uint64_t>(text.size());
  MPI_Bcast(&length, 1, MPI_UINT64_T, rank, of.comm());
  std::string out = of.rank() == rank ? text : std::string();
  out.resize(length);
  for (std::size_t first = 0; first < length; first += kMostOfCall)
    MPI_Bcast(out.data() + first, static_cast<int>(std::min(kMostOfCall, length - first)), MPI_CHAR,
              rank, of.comm());
  return out;
}

constexpr std::uint64_t kMost = std::uint64_t{1} << 28;  // counts of MPI are ints

std::string error_text(int error) {
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
std::vector<std::uint64_t> offsets(const Communicator& ranks, std::span<const std::string> texts) {
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
  const std::vector<std::uint64_t> at = offsets(ranks, texts);
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

Session::Session(int* argc, char*** argv, std::span<const std::string> options) {
  int provided = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
  // PETSc takes the solve's options alone: the command has its own. Some, such as -log_view, are
  // read while it starts.
  words_ = {"topograd"};
  words_.insert(words_.end(), options.begin(), options.end());
  for (std::string& word : words_) pointers_.push_back(word.data());
  pointers_.push_back(nullptr);
  int count = static_cast<int>(words_.size());
  char** words = pointers_.data();
  if (PetscInitialize(&count, &words, nullptr, nullptr) != 0)
    throw Error(ErrorCode::InvalidArgument, "distributed: PETSc refuses its options");
  PetscPopSignalHandler();
  PetscPushErrorHandler(PetscReturnErrorHandler,
                        nullptr);  // errors are exceptions (petsc_krylov.hpp)
}

Session::~Session() {
  PetscFinalize();
  MPI_Finalize();
}

Communicator::Communicator(MPI_Comm comm) {
  int runs = 0;
  MPI_Initialized(&runs);
  if (runs == 0)
    throw Error(ErrorCode::InvalidArgument,
                "distributed: MPI does not run; make a distributed::Session first");
  MPI_Comm_dup(comm, &comm_);
  MPI_Comm_dup(comm, &failures_);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  MPI_Comm here = MPI_COMM_NULL;
  MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
  MPI_Comm_size(here, &ranks_here_);
  MPI_Comm_rank(here, &rank_here_);
  MPI_Comm_free(&here);
}

Communicator::~Communicator() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended != 0) return;
  MPI_Comm_free(&failures_);
  MPI_Comm_free(&comm_);
}

void Communicator::join(std::span<double> numbers) const {
  static_assert(sizeof(double) == sizeof(std::uint64_t));
  for (std::size_t first = 0; first < numbers.size(); first += kMostOfCall) {
    const std::size_t count = std::min(kMostOfCall, numbers.size() - first);
    MPI_Allreduce(MPI_IN_PLACE, numbers.data() + first, static_cast<int>(count), MPI_UINT64_T,
                  MPI_BOR, comm_);
  }
}

std::uint64_t Communicator::sum(std::uint64_t number) const {
  MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_UINT64_T, MPI_SUM, comm_);
  return number;
}

int Communicator::from_first(int number) const {
  MPI_Bcast(&number, 1, MPI_INT, 0, comm_);
  return number;
}

std::string Communicator::from_first(const std::function<std::string()>& make) const {
  std::string result;
  int error = -1;  // the code of one
  if (rank_ == 0) {
    try {
      result = make();
    } catch (const Error& refused) {
      error = static_cast<int>(refused.code());
      result = refused.what();
    }
  }
  error = from_first(error);
  result = text_of(result, 0, *this);
  if (error >= 0) throw Error(static_cast<ErrorCode>(error), result);
  return result;
}

bool Communicator::any(bool here) const {
  int found = here ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &found, 1, MPI_INT, MPI_MAX, comm_);
  return found != 0;
}

std::vector<double> Communicator::gather(std::span<const double> numbers) const {
  std::vector<double> all(numbers.size() * static_cast<std::size_t>(size_));
  const int count = static_cast<int>(numbers.size());
  MPI_Allgather(numbers.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, comm_);
  return all;
}

std::vector<std::string> Communicator::gather_bytes(const std::string& bytes) const {
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<std::uint64_t> sizes(ranks);
  const std::uint64_t size = bytes.size();
  MPI_Allgather(&size, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, comm_);
  std::vector<std::string> out;
  for (std::size_t r = 0; r < ranks; ++r) {
    std::string& text = out.emplace_back(static_cast<int>(r) == rank_ ? bytes : std::string());
    text.resize(sizes[r]);
    for (std::size_t first = 0; first < sizes[r]; first += kMostOfCall)
      MPI_Bcast(text.data() + first, static_cast<int>(std::min(kMostOfCall, sizes[r] - first)),
                MPI_CHAR, static_cast<int>(r), comm_);
  }
  return out;
}

std::vector<double> Communicator::gather_at_first(std::span<const double> numbers) const {
  constexpr int kNumbers = 1;
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<std::uint64_t> sizes(ranks);
  const std::uint64_t size = numbers.size();
  MPI_Gather(&size, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, 0, comm_);
  const auto pieces = [](std::uint64_t count, const auto& move) {
    for (std::uint64_t first = 0; first < count; first += kMostOfCall)
      move(first, static_cast<int>(std::min<std::uint64_t>(kMostOfCall, count - first)));
  };
  if (rank_ != 0) {
    pieces(size, [&](std::uint64_t first, int count) {
      MPI_Send(numbers.data() + first, count, MPI_DOUBLE, 0, kNumbers, comm_);
    });
    return {};
  }
  std::vector<double> all(numbers.begin(), numbers.end());
  all.reserve(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
  for (int r = 1; r < size_; ++r) {
    const std::size_t at = all.size();
    all.resize(at + sizes[static_cast<std::size_t>(r)]);
    pieces(sizes[static_cast<std::size_t>(r)], [&](std::uint64_t first, int count) {
      MPI_Recv(all.data() + at + first, count, MPI_DOUBLE, r, kNumbers, comm_, MPI_STATUS_IGNORE);
    });
  }
  return all;
}

void Communicator::sum(std::span<std::uint64_t> numbers) const {
  for (std::size_t first = 0; first < numbers.size(); first += kMostOfCall)
    MPI_Allreduce(MPI_IN_PLACE, numbers.data() + first,
                  static_cast<int>(std::min(kMostOfCall, numbers.size() - first)), MPI_UINT64_T,
                  MPI_SUM, comm_);
}

std::vector<std::uint64_t> Communicator::sum_before(std::span<const std::uint64_t> numbers) const {
  std::vector<std::uint64_t> out(numbers.size());
  MPI_Exscan(numbers.data(), out.data(), static_cast<int>(numbers.size()), MPI_UINT64_T, MPI_SUM,
             comm_);
  if (rank_ == 0) std::ranges::fill(out, 0);  // MPI leaves them undefined
  return out;
}

std::vector<std::string> Communicator::exchange(const std::vector<std::string>& messages) const {
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<int> sent(ranks), received(ranks), sent_at(ranks), received_at(ranks);
  std::string from, to;
  for (std::size_t r = 0; r < ranks; ++r) {
    sent[r] = static_cast<int>(messages[r].size());
    sent_at[r] = static_cast<int>(from.size());
    from += messages[r];
  }
  MPI_Alltoall(sent.data(), 1, MPI_INT, received.data(), 1, MPI_INT, comm_);
  std::size_t total = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    received_at[r] = static_cast<int>(total);
    total += static_cast<std::size_t>(received[r]);
  }
  to.resize(total);
  MPI_Alltoallv(from.data(), sent.data(), sent_at.data(), MPI_BYTE, to.data(), received.data(),
                received_at.data(), MPI_BYTE, comm_);
  std::vector<std::string> out;
  for (std::size_t r = 0; r < ranks; ++r)
    out.push_back(
        to.substr(static_cast<std::size_t>(received_at[r]), static_cast<std::size_t>(received[r])));
  return out;
}

void Communicator::require_same(const std::string& what, const std::string& text) const {
  const std::string first = text_of(text, 0, *this);
  int other = text == first ? size_ : rank_;
  MPI_Allreduce(MPI_IN_PLACE, &other, 1, MPI_INT, MPI_MIN, comm_);
  if (other == size_) return;
  throw Error(ErrorCode::InvalidArgument, "distributed: expected the same " + what +
                                              " on all ranks, got " + first + " on rank 0 and " +
                                              text_of(text, other, *this) + " on rank " +
                                              std::to_string(other));
}

void Communicator::fail(const std::string& reason) const {
  // Ranks that fail tell the higher ones, which then leave it to them to print.
  constexpr int kFailed = 1;
  for (int other = rank_ + 1; other < size_; ++other) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(nullptr, 0, MPI_BYTE, other, kFailed, failures_, &request);
    MPI_Request_free(&request);
  }
  constexpr std::chrono::milliseconds kTurn(150), kLongest(1500), kUntilEnded(3000);
  std::this_thread::sleep_for(std::min(kTurn * rank_, kLongest));
  int another = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, kFailed, failures_, &another, MPI_STATUS_IGNORE);
  if (another != 0) std::this_thread::sleep_for(kUntilEnded);  // it ends this one
  if (another == 0) {
    std::string line = reason;
    std::ranges::replace(line, '\n', ' ');
    std::fprintf(stderr, "topograd: rank %d: %s\n", rank_, line.c_str());
    std::fflush(stderr);
  }
  MPI_Abort(comm_, 2);
  std::abort();
}

bool Communicator::all_fail(const std::string& reason) const {
  const std::uint64_t hash = runtime::hash_text(reason).low;
  // Equal on all ranks if the least one and the largest one are equal.
  static std::uint64_t here[2], least[2];  // MPI may write to them until the end of the process
  here[0] = hash;
  here[1] = ~hash;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(here, least, 2, MPI_UINT64_T, MPI_MIN, failures_, &request);
  constexpr std::chrono::seconds kPatience(1);
  const auto start = std::chrono::steady_clock::now();
  int done = 0;
  while (done == 0 && std::chrono::steady_clock::now() - start < kPatience) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return done != 0 && least[0] == ~least[1];
}

void Communicator::fail_unless_all(const std::string& reason) const {
  if (!all_fail(reason)) fail(reason);
}

std::string replace_shared_file(const Communicator& ranks, const std::string& path,
                                std::span<const std::string> texts) {
  const Target target(path);
  if (ranks.from_first(target.replaceable ? 1 : 0) == 0) return write_on_first(ranks, path, texts);
  const std::string temporary = ranks.from_first(
      [&] { return target.path + "." + std::to_string(::getpid()) + ".parts.tmp"; });
  const int error = write_parts(ranks, temporary, texts);
  std::string why = first_of(ranks, error == MPI_SUCCESS ? "" : error_text(error));
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
