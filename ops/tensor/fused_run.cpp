// Internal: runs expressions over tensors, as maps and reductions, on the CPU and on devices.
#include "fused_run.hpp"

#include <tbb/enumerable_thread_specific.h>
#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "../../ir/error.hpp"
#include "../../ir/program.hpp"
#include "../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../runtime/cpu/tiles/pool.hpp"
#include "../backend/kernel_store.hpp"
#include "../run/inspection.hpp"

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

/// Calls f(offset, run, step) for the runs of elements [first, first + n) of a loop along its last
/// axis: `run` elements, `step` apart, beginning `offset` elements after the view's first.
template <class F>
void for_runs(const Shape& shape, const Strides& strides, std::uint64_t first, std::size_t n,
              const F& f) {
  const std::size_t last = shape.size() - 1;
  while (n > 0) {
    std::uint64_t rest = first;
    std::int64_t offset = 0;
    for (std::size_t axis = last; axis > 0; --axis) {
      const auto size = static_cast<std::uint64_t>(shape[axis]);
      offset += static_cast<std::int64_t>(rest % size) * strides[axis];
      rest /= size;
    }
    offset += static_cast<std::int64_t>(rest) * strides[0];
    const auto inner = static_cast<std::uint64_t>(shape[last]);
    const std::size_t run = std::min<std::size_t>(n, inner - first % inner);
    f(offset, run, strides[last]);
    first += run;
    n -= run;
  }
}

template <class T, class From>
void read_tile(const From* from, const Shape& shape, const Strides& strides, std::uint64_t first,
               std::size_t n, T* to) {
  for_runs(shape, strides, first, n, [&](std::int64_t offset, std::size_t run, std::int64_t step) {
    const From* source = from + offset;
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
                 [&](std::int64_t offset, std::size_t run, std::int64_t step) {
                   for (std::size_t i = 0; i < run; ++i)
                     to[k][offset + static_cast<std::int64_t>(i) * step] = *from++;
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
  std::uint64_t index = ~std::uint64_t{0};

  void add(T value, std::uint64_t at) {
    if (reduction == FusedReduction::sum) {
      sum += static_cast<double>(value);
      return;
    }
    const bool least = reduction == FusedReduction::min || reduction == FusedReduction::argmin;
    const bool none = index == ~std::uint64_t{0};
    const bool better = least ? value < best : value > best;
    if (none || (!std::isnan(best) && (std::isnan(value) || better))) {
      best = value;
      index = at;
    }
  }
  void add(const Accumulator& later) {
    sum += later.sum;
    if (reduction != FusedReduction::sum && later.index != ~std::uint64_t{0})
      add(later.best, later.index);
  }
  T result() const {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    switch (reduction) {
      case FusedReduction::sum: return static_cast<T>(sum);
      case FusedReduction::argmax:
      case FusedReduction::argmin: return static_cast<T>(index);
      case FusedReduction::max: return index == ~std::uint64_t{0} ? -kInfinity : best;
      case FusedReduction::min: return index == ~std::uint64_t{0} ? kInfinity : best;
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

std::vector<std::shared_ptr<Storage>> storages(const FusedLoop& loop) {
  std::vector<std::shared_ptr<Storage>> out;
  for (const LoopInput& input : loop.inputs) out.push_back(input.view.storage);
  return out;
}

std::vector<std::shared_ptr<Storage>> storages(std::span<const View> views) {
  std::vector<std::shared_ptr<Storage>> out;
  for (const View& view : views) out.push_back(view.storage);
  return out;
}

AccessPattern pattern_of(const Shape& shape, const Strides& strides) {
  if (is_contiguous(shape, strides)) return AccessPattern::linear;
  const bool still = std::ranges::all_of(strides, [](std::int64_t step) { return step == 0; });
  return still ? AccessPattern::scalar : AccessPattern::strided;
}

/// The best form of a map into `out`.
Together together_for(const FusedForm& form, const FusedLoop& loop, const View& out) {
  if (form.strided() || form.program.outputs.size() != 1 ||
      std::ranges::any_of(form.inputs, &FusedInput::half))
    return Together::one;
  bool vectors = loop.type == Type::f32 && loop.count() % 4 == 0 && out.offset % 4 == 0;
  for (std::size_t k = 0; k < form.inputs.size(); ++k)
    vectors &=
        form.inputs[k].pattern == AccessPattern::scalar || loop.inputs[k].view.offset % 4 == 0;
  return vectors ? Together::vectors : Together::four;
}

/// A contiguous copy of an input for the loop over `shape`.
LoopInput copied(const Shape& shape, const LoopInput& input, const std::optional<Device>& device) {
  const Type type = input.type == Type::f16 ? Type::f32 : input.type;
  FusedLoop loop{.shape = shape,
                 .type = type,
                 .program = &identity_program(),
                 .inputs = {input},
                 .numbers = {},
                 .device = device};
  View out{
      std::make_shared<Storage>(loop.count() * size_of(type), "copy", Elements{type, loop.count()}),
      0, contiguous_strides(shape)};
  run_map(loop, {&out, 1});
  return {out, type};
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

FusedForm form_of(const FusedLoop& loop, const Strides* output) {
  FusedForm form{
      .program = *loop.program,
      .precision = loop.type == Type::f64 ? codegen::Precision::f64 : codegen::Precision::f32,
      .inputs = {},
      .output = output == nullptr ? AccessPattern::linear : AccessPattern::strided,
      .rank = static_cast<std::uint32_t>(loop.shape.size())};
  for (const LoopInput& input : loop.inputs)
    form.inputs.push_back({pattern_of(loop.shape, input.view.strides), input.type == Type::f16});
  if (!form.strided()) form.rank = 1;  // the kernel is the same for any loop
  return form;
}

std::vector<std::uint32_t> words_of(const FusedForm& form, const FusedLoop& loop,
                                    std::initializer_list<std::uint64_t> own,
                                    const Strides* output) {
  std::vector<std::uint32_t> words;
  const auto add = [&](std::int64_t word) { words.push_back(static_cast<std::uint32_t>(word)); };
  for (const double number : loop.numbers) {
    if (loop.type == Type::f64) {
      const auto bits = std::bit_cast<std::uint64_t>(number);
      words.push_back(static_cast<std::uint32_t>(bits));
      words.push_back(static_cast<std::uint32_t>(bits >> 32));
    } else {
      words.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(number)));
    }
  }
  for (const std::uint64_t word : own) words.push_back(static_cast<std::uint32_t>(word));
  for (std::size_t axis = 1; form.strided() && axis < loop.shape.size(); ++axis)
    add(loop.shape[axis]);
  for (std::size_t k = 0; k < loop.inputs.size(); ++k) {
    if (form.inputs[k].half) add(loop.inputs[k].view.offset & 1);
    if (form.inputs[k].pattern != AccessPattern::strided) continue;
    for (const std::int64_t step : loop.inputs[k].view.strides) add(step);
  }
  if (output != nullptr)
    for (const std::int64_t step : *output) add(step);
  return words;
}

std::vector<Argument> arguments_of(OpBackend& backend, const FusedLoop& loop) {
  std::vector<Argument> out;
  for (const LoopInput& input : loop.inputs)
    out.push_back(argument(backend, input.view, extent(loop.shape, input.view.strides), input.type,
                           Access::read));
  return out;
}

FusedLoop make_loop(const Shape& shape, Type type, const PendingExpression& pending,
                    const std::optional<Device>& device, std::uint32_t own_words) {
  std::vector<Strides> strides;
  for (const PendingInput& input : pending.inputs) strides.push_back(input.view.strides);
  LoopNest nest = loop_nest(shape, strides);
  if (nest.shape.empty()) {
    nest.shape = {1};
    for (Strides& s : nest.strides) s = {0};
  }
  FusedLoop loop{.shape = nest.shape,
                 .type = type,
                 .program = &pending.program,
                 .inputs = {},
                 .numbers = pending.numbers,
                 .device = device};
  for (std::size_t k = 0; k < pending.inputs.size(); ++k) {
    View view = pending.inputs[k].view;
    view.strides = nest.strides[k];
    loop.inputs.push_back({std::move(view), pending.inputs[k].type});
  }
  for (LoopInput& input : loop.inputs) {
    const FusedForm form = form_of(loop);
    if (form.words(own_words) <= most_words(form.arguments())) break;
    if (pattern_of(loop.shape, input.view.strides) != AccessPattern::strided &&
        input.type != Type::f16)
      continue;
    input = copied(loop.shape, input, device);
  }
  return loop;
}

namespace {

/// Elements of a loop that a device binds at once, a multiple of vectors; all elements if the loop
/// cannot be divided.
std::uint64_t bound_at_once(const OpBackend& backend, const FusedForm& form,
                            const FusedLoop& loop) {
  const std::uint64_t most = backend.limits().binding_bytes / size_of(loop.type) / 4 * 4;
  const bool whole =
      form.strided() || most == 0 || std::ranges::any_of(form.inputs, &FusedInput::half);
  return whole ? loop.count() : most;
}

/// Elements [begin, begin + count) of a loop without strides.
FusedLoop part_of(const FusedLoop& loop, std::uint64_t begin, std::uint64_t count) {
  FusedLoop part = loop;
  part.shape = {static_cast<std::int64_t>(count)};
  for (LoopInput& input : part.inputs) {
    const bool still = pattern_of(loop.shape, input.view.strides) == AccessPattern::scalar;
    if (!still) input.view.offset += static_cast<std::int64_t>(begin);
    input.view.strides = {still ? 0 : 1};
  }
  return part;
}

View beyond(View view, std::uint64_t begin) {
  view.offset += static_cast<std::int64_t>(begin);
  return view;
}

/// The source of a map, and the beginning of its kernel's key.
struct MapSource {
  FusedForm form;
  std::string key;
};

void launch_map(OpBackend& backend, const MapSource& map, const FusedLoop& loop,
                std::span<const View> outputs, const Strides* strides, bool keep) {
  FusedForm form = map.form;
  form.together = together_for(form, loop, outputs[0]);
  const bool vectors = form.together == Together::vectors;
  const std::string stored = map.key + std::to_string(static_cast<int>(form.together));
  const ComputeKernel& kernel = kernel_for(stored, [&] { return map_kernel(form); });
  std::vector<Argument> arguments = arguments_of(backend, loop);
  const std::uint64_t extent_of_out =
      strides == nullptr ? loop.count() : extent(loop.shape, *strides);
  for (const View& out : outputs)
    arguments.push_back(argument(backend, out, extent_of_out, loop.type, Access::write, keep));
  for (std::size_t k = 0; vectors && k < arguments.size(); ++k) {
    if (k >= form.inputs.size() || form.inputs[k].pattern == AccessPattern::linear)
      arguments[k].element = 16;
  }
  const std::uint64_t count = loop.count() / (vectors ? 4 : 1);
  const std::uint64_t block = vectors ? 512 : form.together == Together::four ? 1024 : 256;
  const auto groups = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      (count + block - 1) / block, std::min(backend.limits().groups, 1u << 14)));
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words_of(form, loop, {count}, strides),
                  .groups = {groups}});
}

void map_on_device(OpBackend& backend, const MapSource& map, const FusedLoop& loop,
                   std::span<const View> outputs, const Strides* strides) {
  const std::uint64_t most = bound_at_once(backend, map.form, loop);
  if (loop.count() <= most)
    return launch_map(backend, map, loop, outputs, strides, strides != nullptr);
  for (std::uint64_t begin = 0; begin < loop.count(); begin += most) {
    std::vector<View> parts;
    for (const View& out : outputs) parts.push_back(beyond(out, begin));
    launch_map(backend, map, part_of(loop, begin, std::min(most, loop.count() - begin)), parts,
               nullptr, begin > 0);
  }
}

}  // namespace

namespace {

/// Work of the program, for each element.
Work loop_work(const FusedLoop& loop, std::uint64_t written) {
  Work work{.operations = ir::operation_count(*loop.program) * loop.count(),
            .bytes_read = 0,
            .bytes_written = written * size_of(loop.type)};
  for (const LoopInput& input : loop.inputs) {
    // Strides of 0 repeat an element.
    std::uint64_t elements = 1;
    for (std::size_t axis = 0; axis < loop.shape.size(); ++axis)
      elements *= input.view.strides[axis] == 0 ? 1 : static_cast<std::uint64_t>(loop.shape[axis]);
    const std::uint64_t number = size_of(input.type);
    work.bytes_read.value += static_cast<double>(elements * number);
    work.reads += static_cast<double>(loop.count() * number);
  }
  return work;
}

}  // namespace

void run_map(const FusedLoop& loop, std::span<const View> outputs, const Strides* strides) {
  if (loop.count() == 0) return;
  FusedForm form = form_of(loop, strides);
  if (form.words(1) > most_words(form.arguments())) {
    throw Error(ErrorCode::Unsupported, "map: expected a view of fewer axes, got " +
                                            to_text(loop.shape) + "; make it contiguous by parts");
  }
  std::string key = "map" + form.key();
  const MapSource map{std::move(form), std::move(key)};
  run_op({.op = Operation::Map,
          .kernel = key_of(map.key),
          .size = loop.count(),
          .work = loop_work(loop, outputs.size() * loop.count()),
          .inputs = storages(loop),
          .outputs = storages(outputs),
          .on_cpu = [&] { map_on_cpu(loop, outputs, strides); },
          .on_device =
              [&](OpBackend& backend) { map_on_device(backend, map, loop, outputs, strides); },
          .needs_float64 = loop.type == Type::f64,
          .nodes = [&loop](std::size_t most) { return nodes_of(loop, most); }},
         loop.device);
}

namespace {

/// The division of a reduction: pieces of `segment` elements, by workgroups or invocations.
struct Cut {
  std::uint64_t segment, pieces;
  bool by_workgroup;
};

Cut cut(const FusedLoop& loop, FusedReduction reduction, std::uint64_t outputs, std::uint64_t depth,
        const LaunchLimits& limits) {
  // If neighbouring results read neighbouring elements, neighbouring invocations compute them.
  const bool columns = std::ranges::any_of(loop.inputs, [](const LoopInput& input) {
    return input.view.strides.back() != 1 && input.view.strides.back() != 0;
  });
  if (depth == 0) return {1, 1, false};
  Cut out{depth, 1, depth > 32 && !(columns && outputs >= 32)};
  if (reduction == FusedReduction::argmax || reduction == FusedReduction::argmin) return out;
  const std::uint64_t unit = out.by_workgroup ? 256 : 1;
  const std::uint64_t wanted = limits.occupied_by_few ? 64 : 4096;  // workgroups on the device
  const std::uint64_t groups = out.by_workgroup ? outputs : (outputs + 255) / 256;
  const std::uint64_t least = unit * 16;  // minimum number of elements of a piece
  std::uint64_t pieces = std::min((wanted + groups - 1) / groups, (depth + least - 1) / least);
  pieces = std::clamp<std::uint64_t>(pieces, 1, 1024);
  out.segment = (depth + pieces - 1) / pieces;
  out.segment = (out.segment + unit - 1) / unit * unit;
  out.pieces = (depth + out.segment - 1) / out.segment;
  return out;
}

void launch_reduce(OpBackend& backend, const FusedLoop& loop, FusedReduction reduction,
                   std::uint64_t outputs, std::uint64_t depth, const View& results) {
  const Cut c = cut(loop, reduction, outputs, depth, backend.limits());
  const FusedForm form = form_of(loop);
  const std::string key = "reduce" + std::to_string(static_cast<int>(reduction)) +
                          (c.by_workgroup ? "w" : "i") + form.key();
  const ComputeKernel& kernel =
      kernel_for(key, [&] { return reduce_kernel(form, reduction, c.by_workgroup); });
  std::vector<Argument> arguments = arguments_of(backend, loop);
  View partial = results;
  if (c.pieces > 1)
    partial = {
        std::make_shared<Storage>(outputs * c.pieces * size_of(loop.type), "partials"), 0, {}};
  arguments.push_back(argument(backend, partial, outputs * c.pieces, loop.type, Access::write));
  const std::uint64_t groups = c.by_workgroup ? outputs : (outputs + 255) / 256;
  const std::uint32_t most = std::min(backend.limits().groups, 1u << 16);
  const std::uint64_t x = std::min<std::uint64_t>(groups, most);
  const std::uint64_t rounds = (groups + x - 1) / x;
  const std::uint64_t loops = rounds * (c.segment / (c.by_workgroup ? 256 : 1) + 10);
  if (loops > backend.limits().loop_iterations) {
    throw Error(ErrorCode::Unsupported,
                "reduce: expected fewer elements a result for the loops of this device, got " +
                    std::to_string(depth));
  }
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words_of(form, loop, {outputs, depth, c.segment}),
                  .groups = {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(c.pieces)}});
  if (c.pieces == 1) return;
  const auto m = static_cast<std::int64_t>(outputs), n = static_cast<std::int64_t>(c.pieces);
  partial.strides = {1, m};
  FusedLoop rest{.shape = {m, n},
                 .type = loop.type,
                 .program = &identity_program(),
                 .inputs = {{partial, loop.type}},
                 .numbers = {},
                 .device = loop.device};
  launch_reduce(backend, rest, reduction, outputs, c.pieces, results);
}

/// Reduces parts that can be bound: some results, or (unless it is an index) some elements.
void reduce_on_device(OpBackend& backend, const FusedLoop& loop, FusedReduction reduction,
                      std::uint64_t outputs, std::uint64_t depth, const View& results) {
  if (loop.count() * size_of(loop.type) <= backend.limits().binding_bytes)
    return launch_reduce(backend, loop, reduction, outputs, depth, results);
  const std::uint64_t most = bound_at_once(backend, form_of(loop), loop);
  const bool finds_index =
      reduction == FusedReduction::argmax || reduction == FusedReduction::argmin;
  const std::uint64_t step = depth <= most ? most / std::max<std::uint64_t>(depth, 1) : 0;
  if (loop.count() <= most || (step == 0 && (outputs > 1 || finds_index)))
    return launch_reduce(backend, loop, reduction, outputs, depth, results);
  for (std::uint64_t first = 0; step > 0 && first < outputs; first += step) {
    const std::uint64_t some = std::min(step, outputs - first);
    launch_reduce(backend, part_of(loop, first * depth, some * depth), reduction, some, depth,
                  beyond(results, first));
  }
  if (step > 0) return;
  const std::uint64_t parts = (depth + most - 1) / most;
  const View partial{std::make_shared<Storage>(parts * size_of(loop.type), "partials"), 0, {1}};
  for (std::uint64_t k = 0; k < parts; ++k) {
    const std::uint64_t some = std::min(most, depth - k * most);
    launch_reduce(backend, part_of(loop, k * most, some), reduction, 1, some, beyond(partial, k));
  }
  const FusedLoop rest{.shape = {static_cast<std::int64_t>(parts)},
                       .type = loop.type,
                       .program = &identity_program(),
                       .inputs = {{partial, loop.type}},
                       .numbers = {},
                       .device = loop.device};
  launch_reduce(backend, rest, reduction, 1, parts, results);
}

}  // namespace

void run_reduce(const FusedLoop& loop, FusedReduction reduction, std::uint64_t outputs,
                std::uint64_t depth, const View& results) {
  if (outputs == 0) return;
  const FusedForm form = form_of(loop);
  const std::string key = "reduce" + std::to_string(static_cast<int>(reduction)) + form.key();
  Work work = loop_work(loop, outputs);
  work.operations.value += static_cast<double>(loop.count());
  work.steps = runtime::hybrid::tree_steps(static_cast<double>(depth));
  work.pattern = runtime::hybrid::MemoryPattern::reduction;
  run_op({.op = Operation::Reduce,
          .kernel = key_of(key),
          .size = loop.count(),
          .work = work,
          .inputs = storages(loop),
          .outputs = storages({&results, 1}),
          .on_cpu = [&] { reduce_on_cpu(loop, reduction, outputs, depth, results); },
          .on_device =
              [&](OpBackend& backend) {
                reduce_on_device(backend, loop, reduction, outputs, depth, results);
              },
          .needs_float64 = loop.type == Type::f64,
          .nodes = [&loop](std::size_t most) { return nodes_of(loop, most); }},
         loop.device);
}

ir::Program program_of(std::uint32_t tensors, std::uint32_t numbers,
                       const std::function<std::vector<Value>(std::span<const Value>)>& f) {
  const auto traced = topograd::detail::trace_function("program", tensors + numbers, f);
  ir::Graph graph;
  std::vector<ir::Id> ids, outputs;
  for (const ir::Node& node : traced.program.nodes) {
    if (node.op == ir::Op::Parameter && node.slot() >= tensors) {
      ids.push_back(graph.leaf(ir::Op::Uniform, node.slot() - tensors));
    } else if (node.op == ir::Op::Data) {
      ids.push_back(graph.literal(traced.numbers[node.slot()]));
    } else {
      ids.push_back(graph.copy(node, ids));
    }
  }
  for (const ir::Id output : traced.program.outputs) outputs.push_back(ids[output]);
  return graph.extract(outputs, {.parameters = tensors, .uniforms = numbers});
}

}  // namespace topograd::ops::detail
