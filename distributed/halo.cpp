// Exchanges by PetscSF and MPI.
#include "halo.hpp"

#include "petsc_krylov.hpp"

#include <algorithm>
#include <chrono>

namespace topograd::distributed {
namespace {

/// Adds its life to a sum of seconds.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Position of each chunk in the concatenation of the chunks of its rank, in scalars.
std::vector<std::uint64_t> packed_positions(std::span<const runtime::Chunk> chunks,
                                            std::span<const int> rank_of_chunk, int ranks) {
  std::vector<std::uint64_t> next(static_cast<std::size_t>(ranks)), positions;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    std::uint64_t& at = next[static_cast<std::size_t>(rank_of_chunk[c])];
    positions.push_back(at);
    at += chunks[c].end - chunks[c].first;
  }
  return positions;
}

std::size_t chunk_of_scalar(std::span<const runtime::Chunk> chunks, std::uint64_t scalar) {
  const auto after = [](std::uint64_t s, const runtime::Chunk& chunk) { return s < chunk.first; };
  const auto next = std::upper_bound(chunks.begin(), chunks.end(), scalar, after);
  return static_cast<std::size_t>(next - chunks.begin()) - 1;
}

}  // namespace

Halo::Halo(const Communicator& ranks, const LocalModel& part,
           std::span<const runtime::Chunk> chunks, std::span<const int> rank_of_chunk)
    : ranks_(ranks),
      chunks_of_rank_(static_cast<std::size_t>(ranks.size())),
      chunks_(chunks.size()),
      counts_(static_cast<std::size_t>(ranks.size())),
      offsets_(static_cast<std::size_t>(ranks.size())) {
  for (std::size_t c = 0; c < chunks.size(); ++c)
    chunks_of_rank_[static_cast<std::size_t>(rank_of_chunk[c])].push_back(c);
  connect(part, chunks, rank_of_chunk);
  traffic_.bytes_per_sum =
      (chunks_ - chunks_of_rank_[static_cast<std::size_t>(ranks.rank())].size()) * sizeof(double);
}

// A rank knows the index of a ghost among the scalars that another rank owns, but not its index
// among all scalars that are stored there. A broadcast from the owning ranks gives the latter.
void Halo::connect(const LocalModel& part, std::span<const runtime::Chunk> chunks,
                   std::span<const int> rank_of_chunk) {
  const std::vector<std::uint64_t> positions =
      packed_positions(chunks, rank_of_chunk, ranks_.size());
  std::vector<PetscInt> leaves, index_at_rank;
  std::vector<PetscSFNode> packed;
  for (const Run& run : part.ghosts) {
    for (std::uint64_t k = 0; k < run.count; ++k) {
      const std::size_t c = chunk_of_scalar(chunks, run.whole + k);
      const std::uint64_t at = positions[c] + (run.whole + k - chunks[c].first);
      leaves.push_back(static_cast<PetscInt>(run.here + k));
      packed.push_back({rank_of_chunk[c], static_cast<PetscInt>(at)});
    }
  }
  std::vector<PetscInt> own;
  for (const Run& run : part.own)
    for (std::uint64_t k = 0; k < run.count; ++k)
      own.push_back(static_cast<PetscInt>(run.here + k));

  const auto count = static_cast<PetscInt>(leaves.size());
  PetscSF question = nullptr;
  check(PetscSFCreate(ranks_.comm(), &question));
  check(PetscSFSetGraph(question, static_cast<PetscInt>(own.size()), count, nullptr,
                        PETSC_COPY_VALUES, packed.data(), PETSC_COPY_VALUES));
  index_at_rank.resize(leaves.size());
  check(PetscSFBcastBegin(question, MPIU_INT, own.data(), index_at_rank.data(), MPI_REPLACE));
  check(PetscSFBcastEnd(question, MPIU_INT, own.data(), index_at_rank.data(), MPI_REPLACE));
  check(PetscSFDestroy(&question));

  for (std::size_t k = 0; k < packed.size(); ++k) packed[k].index = index_at_rank[k];
  PetscSF ghosts = nullptr;
  check(PetscSFCreate(ranks_.comm(), &ghosts));
  check(PetscSFSetGraph(ghosts, static_cast<PetscInt>(part.model.scalars), count, leaves.data(),
                        PETSC_COPY_VALUES, packed.data(), PETSC_COPY_VALUES));
  check(PetscSFSetUp(ghosts));
  pack(part, ghosts);
  check(PetscSFDestroy(&ghosts));
  PetscInt senders = 0;
  const PetscMPIInt* of = nullptr;
  const PetscInt *offsets = nullptr, *mine = nullptr, *theirs = nullptr;
  check(PetscSFGetRootRanks(packed_, &senders, &of, &offsets, &mine, &theirs));
  traffic_.messages_per_exchange = static_cast<std::uint64_t>(senders);
  traffic_.bytes_per_exchange = leaves.size() * sizeof(double);
}

// The owning ranks broadcast the index of each scalar among their border scalars.
void Halo::pack(const LocalModel& part, PetscSF ghosts) {
  const PetscInt* degrees = nullptr;
  check(PetscSFComputeDegreeBegin(ghosts, &degrees));
  check(PetscSFComputeDegreeEnd(ghosts, &degrees));
  std::vector<PetscInt> positions(part.model.scalars);
  for (std::size_t k = 0; k < positions.size(); ++k) {
    if (degrees[k] == 0) continue;
    positions[k] = static_cast<PetscInt>(border_scalars_.size());
    border_scalars_.push_back(static_cast<std::uint32_t>(k));
  }
  check(PetscSFBcastBegin(ghosts, MPIU_INT, positions.data(), positions.data(), MPI_REPLACE));
  check(PetscSFBcastEnd(ghosts, MPIU_INT, positions.data(), positions.data(), MPI_REPLACE));
  PetscInt count = 0;
  const PetscInt* leaves = nullptr;
  const PetscSFNode* roots = nullptr;
  check(PetscSFGetGraph(ghosts, nullptr, &count, &leaves, &roots));
  std::vector<PetscSFNode> packed;
  for (PetscInt k = 0; k < count; ++k) {
    const PetscInt ghost = leaves == nullptr ? k : leaves[k];  // PETSc drops 0, 1, 2, ...
    ghost_scalars_.push_back(static_cast<std::uint32_t>(ghost));
    packed.push_back({roots[k].rank, positions[static_cast<std::size_t>(ghost)]});
  }
  check(PetscSFCreate(ranks_.comm(), &packed_));
  check(PetscSFSetGraph(packed_, static_cast<PetscInt>(border_scalars_.size()), count, nullptr,
                        PETSC_COPY_VALUES, packed.data(), PETSC_COPY_VALUES));
  check(PetscSFSetUp(packed_));
  borders_.resize(border_scalars_.size());
  ghosts_.resize(ghost_scalars_.size());
}

Halo::~Halo() { PetscSFDestroy(&packed_); }

void Halo::exchange(std::span<const double> borders, std::span<double> ghosts) {
  const Stopwatch watch(traffic_.seconds);
  check(PetscSFBcastBegin(packed_, MPI_DOUBLE, borders.data(), ghosts.data(), MPI_REPLACE));
  check(PetscSFBcastEnd(packed_, MPI_DOUBLE, borders.data(), ghosts.data(), MPI_REPLACE));
  ++traffic_.ghost_exchanges;
}

// Ranks with vectors of either precision, and ranks on devices, exchange the same messages.
template <class T>
void Halo::fill(std::span<T> v) {
  for (std::size_t k = 0; k < border_scalars_.size(); ++k)
    borders_[k] = static_cast<double>(v[border_scalars_[k]]);
  exchange(borders_, ghosts_);
  for (std::size_t k = 0; k < ghost_scalars_.size(); ++k)
    v[ghost_scalars_[k]] = static_cast<T>(ghosts_[k]);
}

void Halo::fill_ghosts(std::span<float> v) { fill(v); }
void Halo::fill_ghosts(std::span<double> v) { fill(v); }

std::span<const double> Halo::all_chunks(std::span<const double> own, std::size_t width) {
  const Stopwatch watch(traffic_.seconds);
  ++traffic_.sums;
  traffic_.numbers += width;
  int offset = 0;
  for (std::size_t r = 0; r < counts_.size(); ++r) {
    counts_[r] = static_cast<int>(chunks_of_rank_[r].size() * width);
    offsets_[r] = offset;
    offset += counts_[r];
  }
  received_.resize(chunks_ * width);
  all_.resize(chunks_ * width);
  MPI_Allgatherv(own.data(), static_cast<int>(own.size()), MPI_DOUBLE, received_.data(),
                 counts_.data(), offsets_.data(), MPI_DOUBLE, ranks_.comm());
  for (std::size_t r = 0; r < counts_.size(); ++r) {
    const double* from = received_.data() + offsets_[r];
    for (std::size_t column = 0; column < width; ++column)
      for (const std::size_t chunk : chunks_of_rank_[r]) all_[column * chunks_ + chunk] = *from++;
  }
  return all_;
}

}  // namespace topograd::distributed
