// Internal: hierarchical navigable small world graphs, with hnswlib.
#include "nearest_graph.hpp"

#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"

#include <hnswlib/hnswlib.h>

#include <cmath>
#include <compare>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

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

/// Calls make(), whose errors of memory name the number of targets.
template <class F>
auto with_memory(std::size_t targets, const F& make) {
  const auto no_memory = [&] {
    return Error(ErrorCode::OutOfHostMemory,
                 "nearest: no memory for a graph of " + std::to_string(targets) + " targets");
  };
  try {
    return make();
  } catch (const std::bad_alloc&) {
    throw no_memory();
  } catch (const std::runtime_error& error) {
    if (const auto* const own = dynamic_cast<const Error*>(&error)) throw *own;
    throw no_memory();  // from hnswlib; the caller excludes other causes
  }
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::Parse, "nearest: a graph with " + what);
}

/// Reads numbers one by one. Throws Error{Parse} at their end.
class Words {
 public:
  explicit Words(std::span<const std::uint32_t> words) : words_(words) {}
  std::uint32_t next() {
    if (at_ == words_.size()) refuse("too few numbers");
    return words_[at_++];
  }
  bool at_end() const { return at_ == words_.size(); }

 private:
  std::span<const std::uint32_t> words_;
  std::size_t at_ = 0;
};

class Graph final : public NearestGraph {
 public:
  /// Without rows.
  Graph(std::size_t most, std::size_t depth, const NearestOptions& options)
      : options_(options),
        depth_(depth),
        space_(depth),
        graph_(&space_, most, static_cast<std::size_t>(options.links),
               static_cast<std::size_t>(options.build_width)) {}

  Graph(std::span<const float> rows, std::size_t depth, const NearestOptions& options)
      : Graph(rows.size() / depth, depth, options) {
    fill(rows);
  }

  /// With links of another graph of the same rows.
  Graph(std::span<const float> rows, std::size_t depth, const NearestOptions& options,
        std::span<const std::uint32_t> links)
      : Graph(rows.size() / depth, depth, options) {
    Words words(links);
    const std::size_t count = rows.size() / depth;
    const std::uint32_t entry = words.next();
    std::vector<bool> seen(count);
    for (std::uint32_t node = 0; node < count; ++node) read_node(node, rows, words, seen);
    if (!words.at_end()) refuse("too many numbers");
    if (entry >= count) refuse("an entry that does not exist");
    graph_.enterpoint_node_ = entry;
    graph_.maxlevel_ = graph_.element_levels_[entry];
    for (std::uint32_t node = 0; node < count; ++node) check_node(node);
  }

  void add(std::span<const float> rows) override {
    const std::size_t count = graph_.cur_element_count + rows.size() / depth_;
    with_memory(count, [&] { graph_.resizeIndex(count); });
    with_memory(count, [&] { fill(rows); });
  }

  std::vector<std::uint32_t> links() const override {
    std::vector<std::uint32_t> out = {graph_.enterpoint_node_};
    for (std::uint32_t node = 0; node < graph_.cur_element_count; ++node) {
      out.push_back(static_cast<std::uint32_t>(graph_.getExternalLabel(node)));
      out.push_back(static_cast<std::uint32_t>(graph_.element_levels_[node]));
      for (int level = 0; level <= graph_.element_levels_[node]; ++level) {
        const std::span<const std::uint32_t> to = linked(node, level);
        out.push_back(static_cast<std::uint32_t>(to.size()));
        out.insert(out.end(), to.begin(), to.end());
      }
    }
    return out;
  }

  std::size_t near(const float* query, std::span<std::uint32_t> out) const override {
    auto found = graph_.searchKnn(query, out.size());
    std::size_t count = 0;
    for (; !found.empty() && count < out.size(); found.pop())
      out[count++] = static_cast<std::uint32_t>(found.top().second);
    return count;
  }

 private:
  static constexpr std::uint32_t kMostLevels = 64;  // of a level are few rows; none has so many

  /// Adds rows for which there is room.
  void fill(std::span<const float> rows) {
    const double scale = 1 / std::log(static_cast<double>(options_.links));
    const std::size_t first = graph_.cur_element_count, count = rows.size() / depth_;
    const auto add_row = [&](std::size_t row) {
      level_to_add = static_cast<int>(-std::log(uniform(options_.seed, first + row)) * scale);
      graph_.addPoint(&rows[row * depth_], first + row);
    };
    add_row(0);  // the others need an entry point
    runtime::cpu::Pool pool(options_.deterministic ? 1 : 0);
    pool.for_ranges(count - 1, 16, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin + 1; row <= end; ++row) add_row(row);
    });
  }

  hnswlib::linklistsizeint* list(std::uint32_t node, int level) const {
    return level == 0 ? graph_.get_linklist0(node) : graph_.get_linklist(node, level);
  }
  std::span<const std::uint32_t> linked(std::uint32_t node, int level) const {
    hnswlib::linklistsizeint* const at = list(node, level);
    return {at + 1, graph_.getListCount(at)};
  }

  void read_node(std::uint32_t node, std::span<const float> rows, Words& words,
                 std::vector<bool>& seen) {
    const std::uint32_t row = words.next(), levels = words.next();
    if (row >= seen.size() || seen[row]) refuse("a row twice, or one that does not exist");
    if (levels > kMostLevels) refuse("too many levels");
    seen[row] = true;
    std::memset(graph_.get_linklist0(node), 0, graph_.size_data_per_element_);
    std::memcpy(graph_.getDataByInternalId(node), &rows[row * depth_], depth_ * sizeof(float));
    graph_.setExternalLabel(node, row);
    graph_.label_lookup_[row] = node;
    const std::size_t bytes = graph_.size_links_per_element_ * levels;
    graph_.linkLists_[node] = levels > 0 ? static_cast<char*>(std::calloc(bytes, 1)) : nullptr;
    if (levels > 0 && graph_.linkLists_[node] == nullptr) throw std::bad_alloc();
    graph_.element_levels_[node] = static_cast<int>(levels);
    graph_.cur_element_count = node + 1;  // owned by the graph from now on
    for (int level = 0; level <= graph_.element_levels_[node]; ++level) {
      const std::uint32_t count = words.next();
      if (count > (level == 0 ? graph_.maxM0_ : graph_.maxM_)) refuse("too many links");
      hnswlib::linklistsizeint* const at = list(node, level);
      graph_.setListCount(at, static_cast<unsigned short>(count));
      for (std::uint32_t k = 0; k < count; ++k) at[1 + k] = words.next();
    }
  }

  /// A search follows a link of a level to the links of that level of another node.
  void check_node(std::uint32_t node) const {
    if (graph_.element_levels_[node] > graph_.maxlevel_) refuse("a level above the entry's");
    for (int level = 0; level <= graph_.element_levels_[node]; ++level) {
      for (const std::uint32_t to : linked(node, level)) {
        if (to >= graph_.cur_element_count || graph_.element_levels_[to] < level)
          refuse("a link to a node that is not there");
      }
    }
  }

  const NearestOptions options_;
  const std::size_t depth_;
  GapSpace space_;  // must outlive the graph
  hnswlib::HierarchicalNSW<Gap> graph_;
};

}  // namespace

std::unique_ptr<NearestGraph> make_nearest_graph(std::span<const float> rows, std::size_t depth,
                                                 const NearestOptions& options) {
  return with_memory(rows.size() / depth,
                     [&] { return std::make_unique<Graph>(rows, depth, options); });
}

std::unique_ptr<NearestGraph> load_nearest_graph(std::span<const float> rows, std::size_t depth,
                                                 const NearestOptions& options,
                                                 std::span<const std::uint32_t> links) {
  return with_memory(rows.size() / depth,
                     [&] { return std::make_unique<Graph>(rows, depth, options, links); });
}

}  // namespace topograd::ops::detail
