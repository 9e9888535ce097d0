// Sizes of parts, times of steps that are predicted from them, and measured rates for these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../ir/enum_table.hpp"
#include "../runtime/engine/engine.hpp"
#include "../runtime/model/model.hpp"
#include "communicator.hpp"

namespace topograd::distributed {

/// One rank holds and exchanges this much, as far as times depend on it.
struct PartSize {
  std::uint64_t chunks = 0;
  std::uint64_t blocks = 0, scalars = 0;              ///< owned
  std::uint64_t ghost_blocks = 0, ghost_scalars = 0;  ///< copies of other ranks' blocks
  std::uint64_t residuals = 0;                        ///< residual blocks evaluated
  std::uint64_t again = 0;                            ///< of these, counted by another rank
  std::uint64_t senders = 0;                          ///< ranks that own the ghosts
};

/// The sizes that local_model() and Halo have for each rank.
///
///   model          the whole
///   chunks         chunks_of(model.arrays)
///   rank_of_chunk  of each chunk, below `parts`
/// Cost: a pass over the index columns, and a sort of the blocks at borders.
std::vector<PartSize> part_sizes(const runtime::Model& model,
                                 std::span<const runtime::Chunk> chunks,
                                 std::span<const int> rank_of_chunk, int parts);

/// How numbers of all ranks reach all ranks.
enum class Allgather : std::uint8_t {
  doubling,  ///< ⌈log₂ P⌉ messages of doubling length one after the other (Bruck)
  ring       ///< P − 1 messages one after the other
};
TG_ENUM_NAMES(Allgather)

/// A message of n bytes takes α + β n, and a rank receives one message at a time: the model of
/// Hockney, Parallel Computing 20 (1994).
struct Network {
  double latency_seconds = 0;   ///< α
  double seconds_per_byte = 0;  ///< β
  Allgather allgather = Allgather::doubling;
};

/// Speed of one rank's kernels on one kind of problem.
struct KernelRates {
  double product_seconds = 0;  ///< of a product with JᵀJ, by residual block
  double vector_seconds = 0;   ///< of all other work of an iteration, by own scalar
  double step_seconds = 0;     ///< of a step without its iterations, by residual block
  double number_seconds = 0;   ///< to add a number of a chunk to a sum of all chunks
  double iteration_overhead = 0, step_overhead = 0;  ///< whatever the sizes are, seconds
  double exchange_overhead = 0;  ///< of each exchange, such as a way from a device and back
};

/// Exchanges that a rank takes part in.
struct Exchanges {
  double ghosts = 0;   ///< exchanges of ghosts of one vector
  double sums = 0;     ///< gathers of numbers of chunks
  double numbers = 0;  ///< of each chunk, in all of these gathers
};
/// An iteration of conjugate gradients exchanges p, then p·q, then r·r and r·z.
constexpr Exchanges kIterationExchanges{.ghosts = 1, .sums = 2, .numbers = 3};
/// A step without its iterations exchanges ghosts of the step, for the trial point, and sums of the
/// linearisation, of the first residual, and of the trial point.
constexpr Exchanges kStepExchanges{.ghosts = 1, .sums = 8, .numbers = 17};

/// A time is the sum of these.
enum class TimePart : std::uint8_t {
  kernels,  ///< residuals, derivatives and products on the slowest rank
  vectors,  ///< operations on the scalars that it owns
  ghosts,   ///< exchanges of its ghosts
  sums,     ///< gathers of the chunks' numbers, and additions in the order of the chunks
  overhead  ///< starts of kernels, and ways between host and device
};
TG_ENUM_NAMES(TimePart)
constexpr std::size_t kTimeParts = 5;
struct Time {
  std::array<double, kTimeParts> seconds{};
  double& operator[](TimePart part) { return seconds[static_cast<std::size_t>(part)]; }
  double operator[](TimePart part) const { return seconds[static_cast<std::size_t>(part)]; }
  double total() const;
};

/// A division, and the bytes of a scalar that travels.
struct Divided {
  std::vector<PartSize> parts;  ///< one for each rank
  std::uint64_t chunks = 0;     ///< of the whole
  double bytes = sizeof(double);
};

/// The time of one iteration of conjugate gradients with block Jacobi. All ranks wait for the
/// slowest one. One rank exchanges nothing.
Time predict_iteration(const Divided& divided, const KernelRates& rates, const Network& network);
/// The time of a step of Levenberg–Marquardt with so many iterations.
Time predict_step(const Divided& divided, const KernelRates& rates, const Network& network,
                  double iterations);

/// The division of a problem that is `factor` times as large and of the same kind: what ranks own
/// grows by the factor, borders grow by its power `surface` (1/2 for meshes), and who borders on
/// whom stays.
Divided similar(const Divided& divided, double factor, double surface);

struct ScalingPoint {
  int ranks = 1;
  Time time;
};
/// The number of ranks beyond which more stop helping, and why.
struct ScalingEnd {
  int fastest = 1;    ///< ranks that do most work in a second
  int efficient = 1;  ///< most ranks, without a gap, that do half or more of their share
  /// The part of the time that exceeds an equal share of one rank's time most, at the first ranks
  /// that are not efficient, or at the last ones.
  TimePart limit = TimePart::kernels;
};
/// The end of a curve.
///
///   points  ascending, from one rank on
///   weak    the problem grows with the ranks
ScalingEnd scaling_end(std::span<const ScalingPoint> points, bool weak);
/// Work in a second for each rank, over that of one rank: 1 at best.
double efficiency(const ScalingPoint& one, const ScalingPoint& point, bool weak);

/// Latency and bandwidth between the first and the last rank, by a ping-pong; 0 with one rank.
/// Collective.
Network measure_network(const Communicator& ranks);

/// Times of linearisations and steps with a fixed number of iterations.
struct MeasuredTimes {
  double iteration_seconds = 0;  ///< of conjugate gradients
  double step_seconds = 0;       ///< of a step without its iterations
  Exchanges iteration, step;     ///< that they made
};

/// Measures the model divided among the ranks, with one thread for each, by steps of few
/// iterations. Collective. The times are the best of many short samples, so that other work of the
/// machine disturbs them little, and the same on all ranks. Cost: a few seconds.
///
///   x  a point of the whole model
MeasuredTimes measure_times(const Communicator& ranks, const runtime::Model& model,
                            std::span<const double> x);

/// The rates that explain the times of one rank. An iteration's time is divided between the product
/// and the vectors by the bytes that they move.
///
///   tiny  times of a problem with next to no work
KernelRates rates_of(const runtime::Model& model, std::uint64_t chunks, const MeasuredTimes& times,
                     const MeasuredTimes& tiny);

/// Seconds to add one number of a chunk to a sum.
double measure_number_seconds();

}  // namespace topograd::distributed
