// A ping-pong, and steps with few and with many iterations.
#include "measure.hpp"

#include "distributed_engine.hpp"

#include "../runtime/cpu/tiles/pool.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

namespace topograd::distributed {
namespace {

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

/// Half of the shortest way to the other rank and back.
double message_seconds(const Communicator& ranks, std::size_t bytes) {
  constexpr int kRounds = 200;
  const int last = ranks.size() - 1;
  std::vector<char> message(bytes);
  double best = std::numeric_limits<double>::infinity();
  const auto count = static_cast<int>(bytes);
  for (int round = 0; round < kRounds; ++round) {
    const double begin = now();
    if (ranks.rank() == 0) {
      MPI_Send(message.data(), count, MPI_CHAR, last, 0, ranks.comm());
      MPI_Recv(message.data(), count, MPI_CHAR, last, 0, ranks.comm(), MPI_STATUS_IGNORE);
    } else if (ranks.rank() == last) {
      MPI_Recv(message.data(), count, MPI_CHAR, 0, 0, ranks.comm(), MPI_STATUS_IGNORE);
      MPI_Send(message.data(), count, MPI_CHAR, 0, 0, ranks.comm());
    }
    best = std::min(best, now() - begin);
  }
  return ranks.gather(std::vector{best / 2})[0];
}

/// One linearisation and one step; counts its exchanges.
struct Sample {
  double seconds = 0;
  double linear_seconds = 0;  ///< of the iterations and their start
  Exchanges exchanges;
  int iterations = 0;
};

class Stepper {
 public:
  Stepper(const Communicator& ranks, const runtime::Model& model, std::span<const double> x)
      : ranks_(ranks),
        x_(x),
        engine_(ranks, model, {.threads = 1}, PartitionMethod::scotch),
        steps_(*engine_.abilities().steps) {
    steps_.begin_solve();
  }

  /// The best of many, for each number of iterations in turn.
  template <std::size_t N>
  std::array<Sample, N> best(const std::array<int, N>& iterations) {
    constexpr int kMost = 100, kLeast = 5;
    constexpr double kEnough = 4;  // seconds
    std::array<Sample, N> best;
    for (Sample& sample : best)
      sample.seconds = sample.linear_seconds = std::numeric_limits<double>::infinity();
    double spent = 0;
    for (int k = 0; k < kLeast || (k < kMost && spent < kEnough); ++k) {
      for (std::size_t n = 0; n < N; ++n) {
        const Sample sample = step(iterations[n]);
        spent += sample.seconds;  // the same on all ranks
        const double linear = std::min(best[n].linear_seconds, sample.linear_seconds);
        if (sample.seconds < best[n].seconds) best[n] = sample;
        best[n].linear_seconds = linear;
      }
    }
    return best;
  }

 private:
  Sample step(int iterations) {
    engine_.set_point(x_);
    const Traffic before = engine_.traffic();
    MPI_Barrier(ranks_.comm());
    const double begin = now();
    steps_.linearize();
    constexpr double kLambda = 1e-3;
    const runtime::StepReport report = steps_.try_step(
        {.lambda = kLambda, .linear_tolerance = 0, .max_linear_iterations = iterations});
    const double seconds = now() - begin;
    const double longest = most(seconds), linear = most(report.linear_seconds);
    const Traffic& after = engine_.traffic();
    return {.seconds = longest,
            .linear_seconds = linear,
            .exchanges = {.ghosts = difference(after.ghost_exchanges, before.ghost_exchanges),
                          .sums = difference(after.sums, before.sums),
                          .numbers = difference(after.numbers, before.numbers)},
            .iterations = report.linear_iterations};
  }

  double most(double here) const { return std::ranges::max(ranks_.gather(std::vector{here})); }
  static double difference(std::uint64_t after, std::uint64_t before) {
    return static_cast<double>(after - before);
  }

  const Communicator& ranks_;
  std::span<const double> x_;
  DistributedEngine engine_;
  runtime::DampedSteps& steps_;
};

/// Bytes that a product reads and writes for all residuals: the stored Jacobian, and for each
/// unknown its index, p and q.
double product_bytes(const runtime::Model& model) {
  double bytes = 0;
  for (const runtime::Term& term : model.terms) {
    const auto columns = static_cast<double>(term.batch->parameter_columns());
    const auto rows = static_cast<double>(term.topology->program.outputs.size());
    const double each =
        columns * (rows * sizeof(double) + sizeof(std::uint32_t) + 2 * sizeof(double));
    bytes += each * static_cast<double>(term.batch->size());
  }
  return bytes;
}

/// Bytes that the rest of an iteration moves: x, r and p are read and written, q and z are read,
/// z is written, p and q are read for p·q, and the inverse blocks are read.
double vector_bytes(const runtime::Model& model) {
  constexpr double kVectors = 11;
  double bytes = 0;
  for (const runtime::ParameterArray& array : model.arrays)
    bytes += static_cast<double>(array.blocks * array.width) * (kVectors + array.width);
  return bytes * sizeof(double);
}

}  // namespace

Network measure_network(const Communicator& ranks) {
  Network network;
  if (ranks.size() == 1) return network;
  constexpr std::size_t kSmall = 8, kLarge = std::size_t{1} << 20U;
  network.latency_seconds = message_seconds(ranks, kSmall);
  network.seconds_per_byte =
      std::max(0.0, message_seconds(ranks, kLarge) - network.latency_seconds) / kLarge;
  return network;
}

MeasuredTimes measure_times(const Communicator& ranks, const runtime::Model& model,
                            std::span<const double> x) {
  constexpr std::array kIterations = {1, 4};
  const auto [small, large] = Stepper(ranks, model, x).best(kIterations);
  const double more = std::max(1, large.iterations - small.iterations);
  MeasuredTimes times;
  times.iteration_seconds = (large.linear_seconds - small.linear_seconds) / more;
  times.step_seconds = small.seconds - small.iterations * times.iteration_seconds;
  const auto exchanges = [&](double Exchanges::*of) {
    times.iteration.*of = (large.exchanges.*of - small.exchanges.*of) / more;
    times.step.*of = small.exchanges.*of - small.iterations * times.iteration.*of;
  };
  exchanges(&Exchanges::ghosts);
  exchanges(&Exchanges::sums);
  exchanges(&Exchanges::numbers);
  return times;
}

KernelRates rates_of(const runtime::Model& model, std::uint64_t chunks, const MeasuredTimes& times,
                     const MeasuredTimes& tiny) {
  std::uint64_t residuals = 0;
  for (const runtime::Term& term : model.terms) residuals += term.batch->size();
  KernelRates rates;
  rates.number_seconds = measure_number_seconds();
  rates.iteration_overhead = std::max(0.0, tiny.iteration_seconds);
  rates.step_overhead = std::max(0.0, tiny.step_seconds);
  const double numbers = static_cast<double>(chunks) * rates.number_seconds;
  const double iteration = std::max(0.0, times.iteration_seconds - rates.iteration_overhead -
                                             kIterationExchanges.numbers * numbers);
  const double product = product_bytes(model), vectors = vector_bytes(model);
  rates.product_seconds =
      iteration * product / (product + vectors) / static_cast<double>(residuals);
  rates.vector_seconds =
      iteration * vectors / (product + vectors) / static_cast<double>(model.scalars);
  rates.step_seconds =
      std::max(0.0, times.step_seconds - rates.step_overhead - kStepExchanges.numbers * numbers) /
      static_cast<double>(residuals);
  return rates;
}

double measure_number_seconds() {
  constexpr std::size_t kNumbers = runtime::kMostChunks;
  constexpr int kRounds = 100;
  std::vector<double> numbers(kNumbers, 1.0);
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = now();
    sum += runtime::cpu::pairwise_sum(numbers);
    best = std::min(best, now() - begin);
    numbers[0] = sum;  // so that no round is left out
  }
  return best / static_cast<double>(kNumbers);
}

}  // namespace topograd::distributed
