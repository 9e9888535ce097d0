// Counts what is in the parts of a model, and predicts times of steps.
#include "cost_model.hpp"

#include "../runtime/model/model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

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
          std::span<const int> owners, int parts)
      : model_(model), numbers_(model.arrays), owner_(numbers_.count()) {
    sizes_.resize(static_cast<std::size_t>(parts));
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const runtime::Chunk& chunk = chunks[c];
      const auto owner = static_cast<std::uint32_t>(owners[c]);
      std::fill(owner_.begin() + chunk.first_block, owner_.begin() + chunk.end_block, owner);
      PartSize& size = sizes_[owner];
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
      senders.push_back(pair(part, owner_[block]));
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
      const std::uint32_t counts = owner_[blocks[0]];
      parts.clear();
      for (const std::uint32_t block : blocks) parts.push_back(owner_[block]);
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
        if (owner_[block] != part) ghosts_.push_back(pair(part, block));
    if (ghosts_.size() >= limit_) {
      make_set(ghosts_);
      limit_ = std::max(kMany, 2 * ghosts_.size());
    }
  }

  const runtime::Model& model_;
  runtime::BlockNumbers numbers_;
  std::vector<std::uint32_t> owner_;   // by block
  std::vector<std::uint64_t> ghosts_;  // part and block, perhaps several times
  std::size_t limit_ = std::size_t{1} << 26U;
  std::vector<PartSize> sizes_;
};

}  // namespace

std::vector<PartSize> part_sizes(const runtime::Model& model,
                                 std::span<const runtime::Chunk> chunks,
                                 std::span<const int> owners, int parts) {
  return Counter(model, chunks, owners, parts).count();
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

}  // namespace topograd::distributed
