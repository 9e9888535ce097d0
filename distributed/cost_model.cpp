// Counts what is in parts, predicts times of steps, and measures networks and kernels for that.
#include "cost_model.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "../runtime/cpu/tiles/pool.hpp"
#include "../runtime/model/model.hpp"
#include "distributed_engine.hpp"

namespace topograd::distributed {
namespace {

/// Sorts, and removes repeated elements.
template <class T>
void make_set(std::vector<T>& list) {
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

class Counter {
 public:
  Counter(const runtime::Model& model, std::span<const runtime::Chunk> chunks,
          std::span<const int> rank_of_chunk, int parts)
      : model_(model), numbers_(model.arrays), rank_of_block_(numbers_.count()) {
    sizes_.resize(static_cast<std::size_t>(parts));
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const runtime::Chunk& chunk = chunks[c];
      const auto rank = static_cast<std::uint32_t>(rank_of_chunk[c]);
      std::fill(rank_of_block_.begin() + chunk.first_block,
                rank_of_block_.begin() + chunk.end_block, rank);
      PartSize& size = sizes_[rank];
      ++size.chunks;
      size.blocks += chunk.end_block - chunk.first_block;
      size.scalars += chunk.end - chunk.first;
    }
  }

  std::vector<PartSize> count() {
    for (const runtime::Term& term : model_.terms) count_term(term);
    // The engine of a rank without blocks gets one as a ghost.
    for (std::size_t part = 0; part < sizes_.size(); ++part)
      if (sizes_[part].blocks == 0) ghosts_.push_back(pair(static_cast<std::uint32_t>(part), 0));
    make_set(ghosts_);
    std::vector<std::uint64_t> senders;
    for (const std::uint64_t ghost : ghosts_) {
      const auto part = static_cast<std::uint32_t>(ghost >> 32U);
      const auto block = static_cast<std::uint32_t>(ghost);
      ++sizes_[part].ghost_blocks;
      sizes_[part].ghost_scalars += width_of(block);
      senders.push_back(pair(part, rank_of_block_[block]));
    }
    make_set(senders);
    for (const std::uint64_t sender : senders) ++sizes_[sender >> 32U].senders;
    return std::move(sizes_);
  }

 private:
  static std::uint64_t pair(std::uint32_t part, std::uint32_t other) {
    return std::uint64_t{part} << 32U | other;
  }

  std::uint32_t width_of(std::uint32_t block) const {
    std::size_t array = model_.arrays.size() - 1;
    while (numbers_.first(array) > block) --array;
    return model_.arrays[array].width;
  }

  void count_term(const runtime::Term& term) {
    const ir::Batch& batch = *term.batch;
    std::vector<std::uint32_t> blocks, parts;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      blocks.clear();
      for (std::uint32_t slot = 0; slot < batch.parameter_columns(); ++slot)
        blocks.push_back(numbers_.at(batch.index(i, slot)));
      if (blocks.empty()) blocks.push_back(0);  // residuals without parameters
      const std::uint32_t counts = rank_of_block_[blocks[0]];
      parts.clear();
      for (const std::uint32_t block : blocks) parts.push_back(rank_of_block_[block]);
      make_set(parts);
      for (const std::uint32_t part : parts) {
        ++sizes_[part].residuals;
        sizes_[part].again += part == counts ? 0 : 1;
      }
      if (parts.size() > 1) add_ghosts(blocks, parts);
    }
    make_set(ghosts_);
  }

  void add_ghosts(std::vector<std::uint32_t>& blocks, const std::vector<std::uint32_t>& parts) {
    constexpr std::size_t kMany = std::size_t{1} << 26U;
    make_set(blocks);
    for (const std::uint32_t part : parts)
      for (const std::uint32_t block : blocks)
        if (rank_of_block_[block] != part) ghosts_.push_back(pair(part, block));
    if (ghosts_.size() >= limit_) {
      make_set(ghosts_);
      limit_ = std::max(kMany, 2 * ghosts_.size());
    }
  }

  const runtime::Model& model_;
  runtime::BlockNumbers numbers_;
  std::vector<std::uint32_t> rank_of_block_;  // by block
  std::vector<std::uint64_t> ghosts_;         // part and block, perhaps several times
  std::size_t limit_ = std::size_t{1} << 26U;
  std::vector<PartSize> sizes_;
};

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

std::vector<PartSize> part_sizes(const runtime::Model& model,
                                 std::span<const runtime::Chunk> chunks,
                                 std::span<const int> rank_of_chunk, int parts) {
  return Counter(model, chunks, rank_of_chunk, parts).count();
}

namespace {

/// The work of one rank, without the exchanges of all.
struct Work {
  double residual_seconds = 0, scalar_seconds = 0, overhead = 0;
  Exchanges exchanges;
};

Time predict(const Divided& divided, const Work& work, const KernelRates& rates,
             const Network& network) {
  const std::size_t ranks = divided.parts.size();
  Time slowest;
  for (const PartSize& part : divided.parts) {
    Time time;
    time[TimePart::kernels] = work.residual_seconds * static_cast<double>(part.residuals);
    time[TimePart::vectors] = work.scalar_seconds * static_cast<double>(part.scalars);
    const double bytes = divided.bytes * static_cast<double>(part.ghost_scalars);
    if (ranks > 1)
      time[TimePart::ghosts] =
          work.exchanges.ghosts * (static_cast<double>(part.senders) * network.latency_seconds +
                                   bytes * network.seconds_per_byte);
    if (time.total() >= slowest.total()) slowest = time;
  }
  const double numbers = work.exchanges.numbers * static_cast<double>(divided.chunks);
  slowest[TimePart::sums] = numbers * rates.number_seconds;
  slowest[TimePart::overhead] = work.overhead;
  if (ranks == 1) return slowest;
  const auto count = static_cast<double>(ranks);
  const double messages =
      network.allgather == Allgather::ring ? count - 1 : std::bit_width(ranks - 1);
  slowest[TimePart::sums] +=
      work.exchanges.sums * messages * network.latency_seconds +
      numbers * sizeof(double) * (count - 1) / count * network.seconds_per_byte;
  slowest[TimePart::overhead] +=
      (work.exchanges.ghosts + work.exchanges.sums) * rates.exchange_overhead;
  return slowest;
}

}  // namespace

double Time::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

Time predict_iteration(const Divided& divided, const KernelRates& rates, const Network& network) {
  return predict(divided,
                 {.residual_seconds = rates.product_seconds,
                  .scalar_seconds = rates.vector_seconds,
                  .overhead = rates.iteration_overhead,
                  .exchanges = kIterationExchanges},
                 rates, network);
}

Time predict_step(const Divided& divided, const KernelRates& rates, const Network& network,
                  double iterations) {
  Time time = predict(divided,
                      {.residual_seconds = rates.step_seconds,
                       .overhead = rates.step_overhead,
                       .exchanges = kStepExchanges},
                      rates, network);
  const Time iteration = predict_iteration(divided, rates, network);
  for (std::size_t k = 0; k < kTimeParts; ++k) time.seconds[k] += iterations * iteration.seconds[k];
  return time;
}

Divided similar(const Divided& divided, double factor, double surface) {
  const double border = std::pow(factor, surface);
  const auto scale = [](std::uint64_t& count, double by) {
    count = static_cast<std::uint64_t>(std::llround(static_cast<double>(count) * by));
  };
  Divided out = divided;
  for (PartSize& part : out.parts) {
    std::uint64_t once = part.residuals - part.again;
    scale(once, factor);
    scale(part.again, border);
    part.residuals = once + part.again;
    for (std::uint64_t* count : {&part.blocks, &part.scalars}) scale(*count, factor);
    for (std::uint64_t* count : {&part.ghost_blocks, &part.ghost_scalars}) scale(*count, border);
  }
  return out;
}

double efficiency(const ScalingPoint& one, const ScalingPoint& point, bool weak) {
  return one.time.total() / point.time.total() / (weak ? 1 : point.ranks);
}

ScalingEnd scaling_end(std::span<const ScalingPoint> points, bool weak) {
  ScalingEnd end;
  const ScalingPoint& one = points.front();
  const ScalingPoint* at = &points.back();
  double most = 0;
  for (const ScalingPoint& point : points) {
    const double work = efficiency(one, point, weak) * point.ranks;
    if (work > most) end.fastest = point.ranks;
    most = std::max(most, work);
  }
  for (const ScalingPoint& point : points) {
    constexpr double kHalf = 0.5;
    if (efficiency(one, point, weak) < kHalf) {
      at = &point;
      break;
    }
    end.efficient = point.ranks;
  }
  double excess = 0;
  for (std::size_t k = 0; k < kTimeParts; ++k) {
    const double share = one.time.seconds[k] / (weak ? 1 : at->ranks);
    if (at->time.seconds[k] - share > excess) {
      excess = at->time.seconds[k] - share;
      end.limit = static_cast<TimePart>(k);
    }
  }
  return end;
}

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
