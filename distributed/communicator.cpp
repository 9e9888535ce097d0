// MPI behind the few exchanges that a distributed solve needs.
#include "communicator.hpp"

#include "../ir/error.hpp"

#include <petscsys.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <limits>
#include <thread>

namespace topograd::distributed {
namespace {

/// Text of one rank on all of them.
std::string text_of(const std::string& text, int rank, const Communicator& of) {
  auto length = static_cast<std::uint64_t>(text.size());
  MPI_Bcast(&length, 1, MPI_UINT64_T, rank, of.comm());
  std::string out = text;
  out.resize(length);
  MPI_Bcast(out.data(), static_cast<int>(length), MPI_CHAR, rank, of.comm());
  return out;
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
  PetscPushErrorHandler(PetscReturnErrorHandler, nullptr);  // errors are exceptions (petsc.hpp)
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
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  MPI_Comm here = MPI_COMM_NULL;
  MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
  MPI_Comm_size(here, &ranks_here_);
  MPI_Comm_free(&here);
}

Communicator::~Communicator() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended == 0) MPI_Comm_free(&comm_);
}

void Communicator::join(std::span<double> numbers) const {
  static_assert(sizeof(double) == sizeof(std::uint64_t));
  constexpr std::size_t kMost = std::size_t{1} << 28;  // counts of MPI are ints
  for (std::size_t first = 0; first < numbers.size(); first += kMost) {
    const std::size_t count = std::min(kMost, numbers.size() - first);
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

std::vector<double> Communicator::gather(std::span<const double> numbers) const {
  std::vector<double> all(numbers.size() * static_cast<std::size_t>(size_));
  const int count = static_cast<int>(numbers.size());
  MPI_Allgather(numbers.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, comm_);
  return all;
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
  // Where all ranks fail alike, the first one ends the others before they print.
  constexpr std::chrono::milliseconds kTurn(150), kLongest(1500);
  std::this_thread::sleep_for(std::min(kTurn * rank_, kLongest));
  std::string line = reason;
  std::ranges::replace(line, '\n', ' ');
  std::fprintf(stderr, "topograd: rank %d: %s\n", rank_, line.c_str());
  std::fflush(stderr);
  MPI_Abort(comm_, 2);
  std::abort();
}

}  // namespace topograd::distributed
