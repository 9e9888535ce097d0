// Runs expressions over arrays: one kernel on a device, tiles of the interpreter on the CPU.
#include "map.hpp"

#include "../../codegen/glsl/program.hpp"
#include "../../codegen/glsl/text.hpp"
#include "../../ir/machine/parallel.hpp"
#include "../backend/kernel_store.hpp"
#include "../run/inspection.hpp"
#include "map_kernel.hpp"

#include <tbb/enumerable_thread_specific.h>

#include <algorithm>
#include <numeric>

namespace topograd::ops {
namespace {

using codegen::Precision;
using codegen::text;

// Elements per invocation. All of them are loaded before the first is computed, because single
// loads do not keep a device busy.
constexpr std::uint32_t kPerInvocation = 8, kPerSoftwareInvocation = 2;

Step step_of(const MapInput& input) {
  if (input.strides.empty()) return Step::dense;
  return std::ranges::all_of(input.strides, [](std::uint32_t s) { return s == 0; }) ? Step::shared
                                                                                    : Step::strided;
}

/// One call of map_into().
class MapCall {
 public:
  MapCall(const Expression& expression, std::span<const MapInput> inputs,
          std::span<const Slice> outputs, const MapShape& shape)
      : expression_(expression), inputs_(inputs), outputs_(outputs), shape_(shape) {
    check();
    count_ = outputs_[0].size;
    for (const MapInput& input : inputs_) {
      types_.push_back(input.slice.type);
      steps_.push_back(step_of(input));
      if (steps_.back() == Step::strided) {
        strided_words_ += static_cast<std::uint32_t>(shape_.sizes.size());
      }
    }
    for (const Slice& output : outputs_) {
      types_.push_back(output.type);
    }
    if (strided_words_ > 0) strided_words_ += static_cast<std::uint32_t>(shape_.sizes.size());
    precision_ = precision_for(types_);
  }

  ExecutionStats run(const OpOptions& options) {
    std::vector<std::shared_ptr<Storage>> in, out;
    for (const MapInput& input : inputs_) in.push_back(input.slice.storage);
    for (const Slice& output : outputs_) out.push_back(output.storage);
    OpCall call{
        .op = Operation::Map,
        .kernel = key_of("map", expression_.hash().high, expression_.hash().low, precision_),
        .size = count_,
        .work = work(),
        .inputs = std::move(in),
        .outputs = std::move(out),
        .on_cpu = [this] { run_on_cpu(); }};
    const std::uint32_t arguments = static_cast<std::uint32_t>(types_.size());
    if (arguments > 14 || 1 + strided_words_ > most_words(arguments)) {
      call.device_refusal = "takes at most 14 arrays, and fewer with strides";
    } else {
      call.on_device = [this](OpBackend& backend) { run_on_device(backend); };
    }
    call.needs_float64 = precision_ == Precision::f64;
    call.nodes = [this](std::size_t most) {
      return precision_ == Precision::f64 ? nodes<double>(most) : nodes<float>(most);
    };
    return ops::run(call, options);
  }

 private:
  Work work() const {
    Work work{.operations = expression_.operations() * static_cast<double>(count_),
              .bytes_read = 0,
              .bytes_written = 0};
    for (const MapInput& input : inputs_) {
      // Strides of 0 repeat an element.
      std::uint64_t elements = input.strides.empty() ? input.slice.size : 1;
      for (std::size_t d = 0; d < input.strides.size(); ++d)
        elements *= input.strides[d] == 0 ? 1 : shape_.sizes[d];
      const std::uint64_t bytes = size_of(input.slice.type);
      work.bytes_read.value += static_cast<double>(elements * bytes);
      work.reads += static_cast<double>(count_ * bytes);
    }
    for (const Slice& output : outputs_)
      work.bytes_written.value += static_cast<double>(output.bytes());
    return work;
  }

  void check() const {
    if (inputs_.size() != expression_.inputs())
      expect_size("map: inputs", expression_.inputs(), inputs_.size());
    if (outputs_.size() != expression_.outputs() || outputs_.empty())
      expect_size("map: outputs", expression_.outputs(), outputs_.size());
    for (const Slice& output : outputs_) expect_size("map", outputs_[0].size, output.size);
    std::uint64_t items = 1;
    for (const std::uint32_t size : shape_.sizes) items *= size;
    for (const MapInput& input : inputs_) {
      if (input.strides.empty()) {
        expect_size("map", outputs_[0].size, input.slice.size);
        continue;
      }
      expect_size("map: shape", outputs_[0].size, items);
      expect_size("map: strides", shape_.sizes.size(), input.strides.size());
      std::uint64_t last = 0;
      for (std::size_t d = 0; d < shape_.sizes.size(); ++d)
        last += std::uint64_t{input.strides[d]} * (shape_.sizes[d] - (shape_.sizes[d] > 0));
      if (items > 0 && last >= input.slice.size) {
        throw Error(ErrorCode::Shape, "map: strides reach element " + std::to_string(last) +
                                          " of a slice of " + std::to_string(input.slice.size));
      }
    }
  }

  void run_on_cpu() const {
    if (precision_ == Precision::f64) {
      run_tiles<double>();
    } else {
      run_tiles<float>();
    }
  }

  template <class T>
  void run_tiles() const {
    const TileExpression<T> tiles(expression_.program(), expression_.numbers());
    std::vector<HostInput> in;
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      const Slice& slice = inputs_[k].slice;
      in.push_back({slice.type, slice.storage->read_host() + slice.byte_offset(), steps_[k],
                    inputs_[k].strides});
    }
    std::vector<std::byte*> out;
    for (const Slice& slice : outputs_)
      out.push_back(slice.storage->write_host(!slice.whole()) + slice.byte_offset());
    tbb::enumerable_thread_specific<typename TileExpression<T>::Scratch> scratches;
    const auto one = [&](std::size_t first, std::size_t n,
                         typename TileExpression<T>::Scratch& scratch) {
      for (std::size_t k = 0; k < in.size(); ++k)
        load_tile(in[k], shape_.sizes, first, n, tiles.input(scratch, in.size(), k));
      tiles.run(scratch, n);
      for (std::size_t k = 0; k < out.size(); ++k) {
        const T* from = tiles.output(scratch, k);
        with_type(outputs_[k].type, [&](auto element) {
          using E = decltype(element);
          E* to = reinterpret_cast<E*>(out[k]) + first;
          for (std::size_t i = 0; i < n; ++i) to[i] = to_element<E>(from[i]);
        });
      }
    };
    ir::parallel_pieces(count_, kGrain, [&](std::size_t begin, std::size_t end) {
      auto& scratch = scratches.local();
      for (std::size_t first = begin; first < end; first += kTile)
        one(first, std::min<std::size_t>(kTile, end - first), scratch);
    });
  }

  /// Lines for the nodes at the first items.
  template <class T>
  std::string nodes(std::size_t most) const {
    std::vector<std::vector<T>> rows(std::min<std::size_t>(most, count_));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t k = 0; k < inputs_.size(); ++k) {
        const Slice& slice = inputs_[k].slice;
        const HostInput input{slice.type, slice.storage->read_host() + slice.byte_offset(),
                              steps_[k], inputs_[k].strides};
        load_tile(input, shape_.sizes, i, 1, &rows[i].emplace_back());
      }
    }
    const auto& numbers = expression_.numbers();
    return node_lines<T>(expression_.program(), rows, {numbers.begin(), numbers.end()});
  }

  std::uint64_t chunk_items(const OpBackend& backend) const {
    std::uint64_t most = ~std::uint32_t{0} - (1u << 20);
    for (std::size_t k = 0; k < types_.size(); ++k) {
      const bool dense = k >= steps_.size() || steps_[k] == Step::dense;
      if (dense) most = std::min(most, backend.limits().binding_bytes / size_of(types_[k]));
    }
    const std::uint64_t groups = std::uint64_t{backend.limits().groups} * backend.limits().groups;
    return std::min(most, groups * 64) / 1024 * 1024;
  }

  void run_on_device(OpBackend& backend) const {
    if (count_ == 0) return;
    const std::uint32_t per =
        backend.limits().occupied_by_few ? kPerSoftwareInvocation : kPerInvocation;
    const std::uint32_t local = std::min(256u, backend.limits().local_size);
    const auto arguments = static_cast<std::uint32_t>(types_.size());
    const FittedExpression fitted =
        fit(expression_, precision_, most_words(arguments) - 1 - strided_words_);
    const ComputeKernel& kernel = text_for(fitted, per, local);
    const std::uint64_t chunk = chunk_items(backend);
    if (strided_words_ > 0 && count_ > chunk) {
      throw Error(ErrorCode::Unsupported, "map: " + std::to_string(count_) +
                                              " items of strided inputs are over the " +
                                              std::to_string(chunk) + " that \"" +
                                              backend.facts().name + "\" takes at once");
    }
    for (std::uint64_t begin = 0; begin < count_; begin += chunk)
      launch(backend, kernel, fitted, begin, std::min(chunk, count_ - begin), per);
  }

  void launch(OpBackend& backend, const ComputeKernel& kernel, const FittedExpression& fitted,
              std::uint64_t begin, std::uint64_t count, std::uint32_t per) const {
    std::vector<Argument> arguments;
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      const Slice& slice = inputs_[k].slice;
      arguments.push_back(steps_[k] == Step::dense ? slice.reads(backend, begin, count)
                                                   : slice.reads(backend));
    }
    for (const Slice& slice : outputs_)
      arguments.push_back(slice.writes(backend, begin, count, begin > 0));
    std::vector<std::uint32_t> words = {static_cast<std::uint32_t>(count)};
    if (strided_words_ > 0) {
      words.insert(words.end(), shape_.sizes.begin(), shape_.sizes.end());
      for (std::size_t k = 0; k < inputs_.size(); ++k) {
        if (steps_[k] == Step::strided)
          words.insert(words.end(), inputs_[k].strides.begin(), inputs_[k].strides.end());
      }
    }
    words.insert(words.end(), fitted.words.begin(), fitted.words.end());
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = linear_groups(backend, kernel, (count + per - 1) / per)});
  }

  const ComputeKernel& text_for(const FittedExpression& fitted, std::uint32_t per,
                                std::uint32_t local) const {
    ir::Hash128 key = key_of("map", fitted.hash.high, fitted.hash.low, fitted.numbers, per, local,
                             shape_.sizes.size(), precision_);
    for (const Type type : types_) key.add(static_cast<std::uint64_t>(type));
    for (const Step step : steps_) key.add(static_cast<std::uint64_t>(step));
    return kernel_for(key, [&] { return make_source(fitted, per, local); });
  }

  /// "x0(i)", "x0(0)" or the position from strides.
  std::string offset_of(std::size_t k) const {
    if (steps_[k] == Step::dense) return text("x", k, "(i)");
    if (steps_[k] == Step::shared) return text("x", k, "(0)");
    std::string sum;
    for (std::size_t d = 0; d < shape_.sizes.size(); ++d)
      sum += text(d > 0 ? " + " : "", "digit_", d, " * stride_", k, "_", d);
    return text("x", k, "(", sum, ")");
  }

  ComputeKernel make_source(const FittedExpression& fitted, std::uint32_t per,
                            std::uint32_t local) const {
    KernelParts parts{.name = "map_" + ir::to_string(fitted.hash).substr(0, 8),
                      .local_size = {local, 1, 1},
                      .words = {"count"}};
    const codegen::NamedProgram function{"element", &fitted.program};
    for (std::size_t k = 0; k < inputs_.size(); ++k)
      parts.arguments.push_back({text("x", k), std::string(glsl_name(types_[k])), Access::read});
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      parts.arguments.push_back(
          {text("y", k), std::string(glsl_name(types_[inputs_.size() + k])), Access::write});
    const std::string digits = strided_words_ > 0 ? add_strides(parts) : std::string();
    for (std::string& word : number_words(fitted, precision_))
      parts.words.push_back(std::move(word));
    parts.functions = codegen::write_functions({&function, 1}, precision_) + "\n" +
                      conversion_functions(precision_) + "\n" + item_functions(fitted, digits);
    parts.body = body_source(per, local);
    return make_kernel(parts);
  }

  /// struct Item, load_item(i), and store_item(i, item), which also computes.
  std::string item_functions(const FittedExpression& fitted, const std::string& digits) const {
    const std::string type(codegen::scalar_type(precision_));
    std::string members, loads, call = "element(", declared, stores;
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      members += text("  ", type, " a", k, ";\n");
      loads += text("  item.a", k, " = ", load_source(types_[k], precision_, offset_of(k)), ";\n");
      call += text(k > 0 ? ", item.a" : "item.a", k);
    }
    call += number_arguments(fitted, precision_);
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      const Type t = types_[inputs_.size() + k];
      declared += text("  ", type, " result_", k, ";\n");
      call += text(", result_", k);
      stores += text("  y", k, "(i) = ", store_source(t, precision_, text("result_", k)), ";\n");
    }
    return "struct Item {\n" + members + "};\nItem load_item(uint i) {\n" + digits +
           "  Item item;\n" + loads + "  return item;\n}\nvoid store_item(uint i, Item item) {\n" +
           declared + "  " + call + ");\n" + stores + "}\n";
  }

  /// Items of an invocation are a workgroup apart, so that neighbours load neighbours.
  static std::string body_source(std::uint32_t per, std::uint32_t local) {
    const std::uint32_t tile = local * per;
    std::string loads, stores;
    for (std::uint32_t k = 0; k < per; ++k) {
      loads += text("    Item item_", k, " = load_item(first + ", k * local, "u);\n");
      stores += text("    store_item(first + ", k * local, "u, item_", k, ");\n");
    }
    return text("  uint start = linear_group() * ", tile,
                "u;\n  uint first = start + gl_LocalInvocationID.x;\n", "  if (start + ", tile,
                "u <= count) {\n", loads, stores,
                "    return;\n  }\n  for (uint i = first; i < min(count, start + ", tile,
                "u); i += ", local, "u) store_item(i, load_item(i));\n");
  }

  /// Adds the words of strides; returns the statements that split an item's number into digits.
  std::string add_strides(KernelParts& parts) const {
    std::string out = "  uint rest = i;\n";
    const std::size_t rank = shape_.sizes.size();
    for (std::size_t d = 0; d < rank; ++d) parts.words.push_back(text("size_", d));
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      for (std::size_t d = 0; steps_[k] == Step::strided && d < rank; ++d)
        parts.words.push_back(text("stride_", k, "_", d));
    }
    for (std::size_t d = rank; d-- > 0;) {
      out += text("  uint digit_", d, " = rest % size_", d, ";\n");
      if (d > 0) out += text("  rest /= size_", d, ";\n");
    }
    return out;
  }

  const Expression& expression_;
  const std::span<const MapInput> inputs_;
  const std::span<const Slice> outputs_;
  const MapShape& shape_;
  std::uint64_t count_ = 0;
  std::vector<Type> types_;  // inputs, then outputs
  std::vector<Step> steps_;  // inputs
  std::uint32_t strided_words_ = 0;
  Precision precision_ = Precision::f32;
};

}  // namespace

ExecutionStats map_into(const Expression& expression, std::span<const MapInput> inputs,
                        std::span<const Slice> outputs, const MapShape& shape,
                        const OpOptions& options) {
  return MapCall(expression, inputs, outputs, shape).run(options);
}

std::vector<Slice> map_slices(const char* call, const Expression& expression,
                              std::span<const Slice> inputs, std::span<const Type> types,
                              const OpOptions& options) {
  std::uint64_t size = 1;
  for (const Slice& input : inputs) {
    if (input.size == 1) continue;
    if (size != 1) expect_size(call, size, input.size);
    size = input.size;
  }
  MapShape shape;
  std::vector<MapInput> from;
  for (const Slice& input : inputs) {
    from.push_back({input, {}});
    if (input.size == size) continue;
    from.back().strides = {0};
    shape.sizes = {static_cast<std::uint32_t>(size)};
  }
  std::vector<Slice> outputs;
  for (const Type type : types) outputs.push_back(make_slice(type, size, call));
  map_into(expression, from, outputs, shape, options);
  return outputs;
}

}  // namespace topograd::ops
