// Internal: hierarchical navigable small world graphs, with hnswlib.
#include "nearest_graph.hpp"

#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"

#include <hnswlib/hnswlib.h>

#include <cmath>
#include <compare>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>

namespace topograd::ops::detail {
namespace {

/// A squared distance, as a type of its own: the specialisation below must not affect users'
/// graphs.
struct Gap {
  float squared = 0;
  auto operator<=>(const Gap&) const = default;
  Gap operator-() const { return {-squared}; }
};

/// Level of the target that this thread is adding.
thread_local int level_to_add = 0;

}  // namespace
}  // namespace topograd::ops::detail

template <>
class std::numeric_limits<topograd::ops::detail::Gap> {
 public:
  static topograd::ops::detail::Gap max() { return {std::numeric_limits<float>::max()}; }
};

/// hnswlib draws from one generator, which threads would share without a lock.
template <>  // NOLINTNEXTLINE(readability-identifier-naming): hnswlib's name
int hnswlib::HierarchicalNSW<topograd::ops::detail::Gap>::getRandomLevel(double) {
  return topograd::ops::detail::level_to_add;
}

namespace topograd::ops::detail {
namespace {

class GapSpace final : public hnswlib::SpaceInterface<Gap> {
 public:
  explicit GapSpace(std::size_t depth) : floats_(depth) {
    distance_ = {floats_.get_dist_func(), floats_.get_dist_func_param()};
  }
  std::size_t get_data_size() override { return floats_.get_data_size(); }
  hnswlib::DISTFUNC<Gap> get_dist_func() override {
    return [](const void* a, const void* b, const void* distance) {
      const auto& d = *static_cast<const FloatDistance*>(distance);
      return Gap{d.function(a, b, d.depth)};
    };
  }
  void* get_dist_func_param() override { return &distance_; }

 private:
  struct FloatDistance {
    hnswlib::DISTFUNC<float> function = nullptr;
    const void* depth = nullptr;
  };
  hnswlib::L2Space floats_;
  FloatDistance distance_;
};

/// Uniform in (0, 1], determined by row and seed (Steele, Lea & Flood, SplitMix64, 2014).
double uniform(std::uint64_t seed, std::uint64_t row) {
  std::uint64_t z = seed + (row + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return static_cast<double>((z >> 11) + 1) * 0x1p-53;
}

class Graph final : public NearestGraph {
 public:
  Graph(std::span<const float> rows, std::size_t depth, const NearestOptions& options)
      : space_(depth),
        graph_(&space_, rows.size() / depth, static_cast<std::size_t>(options.links),
               static_cast<std::size_t>(options.build_width)) {
    const double scale = 1 / std::log(static_cast<double>(options.links));
    const auto add = [&](std::size_t row) {
      level_to_add = static_cast<int>(-std::log(uniform(options.seed, row)) * scale);
      graph_.addPoint(&rows[row * depth], row);
    };
    add(0);  // the others need an entry point
    runtime::cpu::Pool pool(options.deterministic ? 1 : 0);
    pool.for_ranges(rows.size() / depth - 1, 16, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin + 1; row <= end; ++row) add(row);
    });
  }

  std::size_t near(const float* query, std::span<std::uint32_t> out) const override {
    auto found = graph_.searchKnn(query, out.size());
    std::size_t count = 0;
    for (; !found.empty() && count < out.size(); found.pop())
      out[count++] = static_cast<std::uint32_t>(found.top().second);
    return count;
  }

 private:
  GapSpace space_;  // must outlive the graph
  hnswlib::HierarchicalNSW<Gap> graph_;
};

}  // namespace

std::unique_ptr<NearestGraph> make_nearest_graph(std::span<const float> rows, std::size_t depth,
                                                 const NearestOptions& options) {
  const auto no_memory = [&] {
    return Error(ErrorCode::OutOfHostMemory, "nearest: no memory for a graph of " +
                                                 std::to_string(rows.size() / depth) + " targets");
  };
  try {
    return std::make_unique<Graph>(rows, depth, options);
  } catch (const std::bad_alloc&) {
    throw no_memory();
  } catch (const std::runtime_error&) {  // from hnswlib; the caller excludes other causes
    throw no_memory();
  }
}

}  // namespace topograd::ops::detail
