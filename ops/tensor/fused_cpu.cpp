// Expressions over tensors on the CPU: the interpreter evaluates tiles of elements.
#include "../../ir/program.hpp"
#include "../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../runtime/cpu/tiles/pool.hpp"
#include "../run/inspection.hpp"
#include "fused_run.hpp"

#include <Eigen/Core>

#include <tbb/enumerable_thread_specific.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <string>

namespace topograd::ops::detail {
namespace {

using runtime::cpu::Column;
using runtime::cpu::kTile;
using runtime::cpu::Pool;
using runtime::cpu::TileKernel;
using runtime::cpu::whole_lanes;

constexpr std::size_t kGrain = 1 << 14;  // elements per task

/// The program with its inputs as columns.
ir::Program with_columns(const ir::Program& program) {
  ir::Graph graph;
  std::vector<ir::Id> map;
  for (const ir::Node& node : program.nodes) {
    map.push_back(node.op == ir::Op::Parameter ? graph.leaf(ir::Op::Data, node.slot())
                                               : graph.copy(node, map));
  }
  std::vector<ir::Id> outputs;
  for (const ir::Id output : program.outputs) outputs.push_back(map[output]);
  return graph.extract(outputs,
                       {.data = program.leaves.parameters, .uniforms = program.leaves.uniforms});
}

template <class T>
const TileKernel<T>& tile_kernel(const ir::Program& program) {
  static std::mutex& mutex = *new std::mutex;
  static auto& kernels = *new std::map<std::string, TileKernel<T>>;
  const std::string key = FusedForm{.program = program, .inputs = {}}.key();
  const std::lock_guard lock(mutex);
  const auto found = kernels.find(key);
  if (found != kernels.end()) return found->second;
  return kernels.emplace(key, TileKernel<T>(with_columns(program))).first->second;
}

/// Calls f(place, run, step) for the runs of elements [first, first + n) of a loop along its last
/// axis: `run` elements, `step` apart, beginning `place` elements after the view's first.
template <class F>
void for_runs(const Shape& shape, const Strides& strides, std::uint64_t first, std::size_t n,
              const F& f) {
  const std::size_t last = shape.size() - 1;
  while (n > 0) {
    std::uint64_t rest = first;
    std::int64_t place = 0;
    for (std::size_t axis = last; axis > 0; --axis) {
      const auto size = static_cast<std::uint64_t>(shape[axis]);
      place += static_cast<std::int64_t>(rest % size) * strides[axis];
      rest /= size;
    }
    place += static_cast<std::int64_t>(rest) * strides[0];
    const auto inner = static_cast<std::uint64_t>(shape[last]);
    const std::size_t run = std::min<std::size_t>(n, inner - first % inner);
    f(place, run, strides[last]);
    first += run;
    n -= run;
  }
}

template <class T, class From>
void read_tile(const From* from, const Shape& shape, const Strides& strides, std::uint64_t first,
               std::size_t n, T* to) {
  for_runs(shape, strides, first, n, [&](std::int64_t place, std::size_t run, std::int64_t step) {
    const From* source = from + place;
    for (std::size_t k = 0; k < run; ++k)
      to[k] = static_cast<T>(source[static_cast<std::int64_t>(k) * step]);
    to += run;
  });
}

/// Evaluates the expression in tiles; one object per thread.
template <class T>
class Tiles {
 public:
  Tiles(const FusedLoop& loop, const TileKernel<T>& kernel)
      : loop_(loop), kernel_(kernel), buffer_((loop.inputs.size() + 1) * kTile) {
    std::fill_n(buffer_.data(), buffer_.size(), T{});
    // Finding the elements takes a lock, so this is done once and not for each tile.
    for (const LoopInput& input : loop.inputs) {
      const bool half = input.type == Type::f16;
      from_.push_back(half ? static_cast<const void*>(host_read<Eigen::half>(input.view))
                           : host_read<T>(input.view));
    }
    for (const double number : loop.numbers) numbers_.push_back(static_cast<T>(number));
    for (const runtime::cpu::LeafUse& use : kernel.program().columns)
      binding_.columns.push_back({buffer_.data() + use.slot * kTile, true});
    for (const runtime::cpu::LeafUse& use : kernel.program().gathers)
      binding_.gathers.push_back({&numbers_[use.slot], nullptr});
  }

  void run(std::uint64_t first, std::size_t n) {
    for (std::size_t k = 0; k < loop_.inputs.size(); ++k) {
      const LoopInput& input = loop_.inputs[k];
      T* const tile = buffer_.data() + k * kTile;
      const auto read = [&](const auto* from) {
        read_tile(from, loop_.shape, input.view.strides, first, n, tile);
      };
      if (input.type == Type::f16) {
        read(static_cast<const Eigen::half*>(from_[k]));
      } else {
        read(static_cast<const T*>(from_[k]));
      }
    }
    worker_.run(kernel_, binding_, 0, n);
  }
  const T* output(std::size_t k) const { return worker_.output(k); }

  using OfThreads = tbb::enumerable_thread_specific<Tiles>;
  static OfThreads of_threads(const FusedLoop& loop, const TileKernel<T>& kernel) {
    return OfThreads([&loop, &kernel] { return Tiles(loop, kernel); });
  }

 private:
  const FusedLoop& loop_;
  const TileKernel<T>& kernel_;
  std::vector<const void*> from_;
  Column<T> buffer_;
  std::vector<T> numbers_;
  runtime::cpu::Binding<T> binding_;
  runtime::cpu::Worker<T> worker_;
};

template <class T>
void map_typed(const FusedLoop& loop, std::span<const View> outputs, const Strides* strides) {
  const TileKernel<T>& kernel = tile_kernel<T>(*loop.program);
  std::vector<T*> to;
  for (const View& out : outputs) to.push_back(host_write<T>(out, strides != nullptr));
  for (const LoopInput& input : loop.inputs) input.view.storage->read_host();
  auto of_threads = Tiles<T>::of_threads(loop, kernel);
  Pool(0).for_ranges(loop.count(), kGrain, [&](std::size_t begin, std::size_t end) {
    Tiles<T>& tiles = of_threads.local();
    for (std::size_t first = begin; first < end; first += kTile) {
      const std::size_t n = std::min(kTile, end - first);
      tiles.run(first, n);
      for (std::size_t k = 0; k < to.size(); ++k) {
        const T* from = tiles.output(k);
        if (strides == nullptr) {
          std::copy_n(from, n, to[k] + first);
          continue;
        }
        for_runs(loop.shape, *strides, first, n,
                 [&](std::int64_t place, std::size_t run, std::int64_t step) {
                   for (std::size_t i = 0; i < run; ++i)
                     to[k][place + static_cast<std::int64_t>(i) * step] = *from++;
                 });
      }
    }
  });
}

/// Sums in double; extremes as kernels define them.
template <class T>
struct Accumulator {
  FusedReduction reduction;
  double sum = 0;
  T best = 0;
  std::uint64_t place = ~std::uint64_t{0};

  void add(T value, std::uint64_t at) {
    if (reduction == FusedReduction::sum) {
      sum += static_cast<double>(value);
      return;
    }
    const bool least = reduction == FusedReduction::min || reduction == FusedReduction::argmin;
    const bool none = place == ~std::uint64_t{0};
    const bool better = least ? value < best : value > best;
    if (none || (!std::isnan(best) && (std::isnan(value) || better))) {
      best = value;
      place = at;
    }
  }
  void add(const Accumulator& later) {
    sum += later.sum;
    if (reduction != FusedReduction::sum && later.place != ~std::uint64_t{0})
      add(later.best, later.place);
  }
  T result() const {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    switch (reduction) {
      case FusedReduction::sum: return static_cast<T>(sum);
      case FusedReduction::argmax:
      case FusedReduction::argmin: return static_cast<T>(place);
      case FusedReduction::max: return place == ~std::uint64_t{0} ? -kInfinity : best;
      case FusedReduction::min: return place == ~std::uint64_t{0} ? kInfinity : best;
    }
    return T{};
  }
};

template <class T>
void reduce_typed(const FusedLoop& loop, FusedReduction reduction, std::uint64_t outputs,
                  std::uint64_t depth, const View& results) {
  const TileKernel<T>& kernel = tile_kernel<T>(*loop.program);
  T* const to = host_write<T>(results);
  for (const LoopInput& input : loop.inputs) input.view.storage->read_host();
  const auto combine = [&](Tiles<T>& tiles, std::uint64_t begin, std::uint64_t end, auto&& use) {
    for (std::uint64_t first = begin; first < end; first += kTile) {
      const std::size_t n = std::min<std::uint64_t>(kTile, end - first);
      tiles.run(first, n);
      for (std::size_t k = 0; k < n; ++k) use(first + k, tiles.output(0)[k]);
    }
  };
  auto of_threads = Tiles<T>::of_threads(loop, kernel);
  Pool pool(0);
  if (depth <= kGrain) {  // complete results
    const std::size_t grain =
        std::max<std::uint64_t>(1, kGrain / std::max<std::uint64_t>(depth, 1));
    pool.for_ranges(outputs, grain, [&](std::size_t begin, std::size_t end) {
      Tiles<T>& tiles = of_threads.local();
      std::vector<Accumulator<T>> sums(end - begin, Accumulator<T>{reduction});
      combine(tiles, begin * depth, end * depth,
              [&](std::uint64_t i, T value) { sums[i / depth - begin].add(value, i % depth); });
      for (std::size_t o = begin; o < end; ++o) to[o] = sums[o - begin].result();
    });
    return;
  }
  const std::size_t pieces = (depth + kGrain - 1) / kGrain;
  std::vector<Accumulator<T>> sums(outputs * pieces, Accumulator<T>{reduction});
  pool.for_ranges(outputs * pieces, 1, [&](std::size_t piece, std::size_t) {
    Tiles<T>& tiles = of_threads.local();
    const std::uint64_t start = piece / pieces * depth;
    const std::uint64_t begin = piece % pieces * kGrain;
    combine(tiles, start + begin, start + std::min<std::uint64_t>(depth, begin + kGrain),
            [&](std::uint64_t i, T value) { sums[piece].add(value, i - start); });
  });
  for (std::uint64_t o = 0; o < outputs; ++o) {
    Accumulator<T> total{reduction};
    for (std::size_t k = 0; k < pieces; ++k) total.add(sums[o * pieces + k]);
    to[o] = total.result();
  }
}

template <class T>
std::string nodes_typed(const FusedLoop& loop, std::size_t most) {
  std::vector<std::vector<T>> rows(std::min<std::size_t>(most, loop.count()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const LoopInput& input : loop.inputs) {
      const Strides& strides = input.view.strides;
      T* const to = &rows[i].emplace_back();
      if (input.type == Type::f16) {
        read_tile(host_read<Eigen::half>(input.view), loop.shape, strides, i, 1, to);
      } else {
        read_tile(host_read<T>(input.view), loop.shape, strides, i, 1, to);
      }
    }
  }
  return node_lines<T>(*loop.program, rows, {loop.numbers.begin(), loop.numbers.end()});
}

}  // namespace

std::string nodes_of(const FusedLoop& loop, std::size_t most) {
  return loop.type == Type::f64 ? nodes_typed<double>(loop, most) : nodes_typed<float>(loop, most);
}

void map_on_cpu(const FusedLoop& loop, std::span<const View> outputs, const Strides* strides) {
  loop.type == Type::f64 ? map_typed<double>(loop, outputs, strides)
                         : map_typed<float>(loop, outputs, strides);
}

void reduce_on_cpu(const FusedLoop& loop, FusedReduction reduction, std::uint64_t outputs,
                   std::uint64_t depth, const View& results) {
  loop.type == Type::f64 ? reduce_typed<double>(loop, reduction, outputs, depth, results)
                         : reduce_typed<float>(loop, reduction, outputs, depth, results);
}

}  // namespace topograd::ops::detail
