// The sum of kernels, exchanges and overheads of the slowest rank.
#include "cost_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace topograd::distributed {
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

}  // namespace topograd::distributed
