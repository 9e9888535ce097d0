// The exchanges between the parts of a model: ghosts by PetscSF, sums by chunk.
#pragma once

#include "communicator.hpp"
#include "local_model.hpp"

#include <petscsf.h>

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::distributed {

/// Counts what the exchanges of one rank have moved.
struct Traffic {
  std::uint64_t ghost_exchanges = 0, sums = 0;
  std::uint64_t numbers = 0;                ///< of each chunk, in all sums
  std::uint64_t bytes_per_exchange = 0;     ///< that a rank receives for its ghosts, in f64
  std::uint64_t messages_per_exchange = 0;  ///< that it receives for them
  std::uint64_t bytes_per_sum = 0;          ///< that it receives for one scalar sum
  double seconds = 0;                       ///< in exchanges: transfers, and waiting for others
};

class Halo final : public runtime::PartLink {
 public:
  ///   ranks, part    outlive it
  ///   chunks         of the whole model
  ///   rank_of_chunk  of each chunk
  Halo(const Communicator& ranks, const LocalModel& part, std::span<const runtime::Chunk> chunks,
       std::span<const int> rank_of_chunk);
  ~Halo() override;
  Halo(const Halo&) = delete;
  Halo& operator=(const Halo&) = delete;

  void fill_ghosts(std::span<float> v) override;
  void fill_ghosts(std::span<double> v) override;
  std::span<const std::uint32_t> borders() const override { return border_scalars_; }
  std::span<const std::uint32_t> ghosts() const override { return ghost_scalars_; }
  void exchange(std::span<const double> borders, std::span<double> ghosts) override;
  std::span<const double> all_chunks(std::span<const double> own, std::size_t width) override;
  const Traffic& traffic() const { return traffic_; }

 private:
  template <class T>
  void fill(std::span<T> v);
  void connect(const LocalModel& part, std::span<const runtime::Chunk> chunks,
               std::span<const int> rank_of_chunk);
  /// Finds borders, and makes the graph of packed ones.
  void pack(const LocalModel& part, PetscSF ghosts);

  const Communicator& ranks_;
  PetscSF packed_ = nullptr;  // borders to ghosts
  std::vector<std::uint32_t> border_scalars_, ghost_scalars_;
  std::vector<std::vector<std::size_t>> chunks_of_rank_;
  std::size_t chunks_ = 0;
  std::vector<int> counts_, offsets_;     // scratch, in numbers, by rank
  std::vector<double> received_, all_;    // scratch
  std::vector<double> borders_, ghosts_;  // scratch of fill_ghosts()
  Traffic traffic_;
};

}  // namespace topograd::distributed
