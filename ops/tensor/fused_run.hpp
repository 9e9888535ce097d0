// Internal: runs expressions over tensors, as maps and reductions, on the CPU and on devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../../frontend/traced_function.hpp"
#include "../../ir/program.hpp"
#include "fused_source.hpp"
#include "state.hpp"

namespace topograd::ops::detail {

/// An input tensor of an expression, in the loop over its elements.
struct LoopInput {
  View view;  ///< strides by the axes of the loop
  Type type = Type::f32;
};

/// An expression and the loop over its elements: parameter slot k is input k.
struct FusedLoop {
  Shape shape;            ///< few axes; at least one
  Type type = Type::f32;  ///< f32 or f64: type of arithmetic and results
  const ir::Program* program = nullptr;
  std::vector<LoopInput> inputs;
  std::span<const double> numbers;
  std::optional<Device> device;

  std::uint64_t count() const { return static_cast<std::uint64_t>(element_count(shape)); }
};

/// The loop of an expression over `shape`, axes joined. Copies inputs that it cannot traverse.
FusedLoop make_loop(const Shape& shape, Type type, const PendingExpression& pending,
                    const std::optional<Device>& device, std::uint32_t own_words);

/// outputs[k] = output k of the program at each element; contiguous storage of `type`. `strides`
/// (by the loop's axes) apply to the only output.
void run_map(const FusedLoop& loop, std::span<const View> outputs,
             const Strides* strides = nullptr);

/// results[o] = the program's output combined over elements o * depth ... of the loop.
void run_reduce(const FusedLoop& loop, FusedReduction reduction, std::uint64_t outputs,
                std::uint64_t depth, const View& results);

/// Implementations on the CPU.
void map_on_cpu(const FusedLoop& loop, std::span<const View> outputs, const Strides* strides);
void reduce_on_cpu(const FusedLoop& loop, FusedReduction reduction, std::uint64_t outputs,
                   std::uint64_t depth, const View& results);

/// Lines for the nodes of the expression at the first elements (inspection.hpp).
std::string nodes_of(const FusedLoop& loop, std::size_t most);

/// Fills in the arguments and words of a kernel.
FusedForm form_of(const FusedLoop& loop, const Strides* output = nullptr);
std::vector<std::uint32_t> words_of(const FusedForm& form, const FusedLoop& loop,
                                    std::initializer_list<std::uint64_t> own,
                                    const Strides* output = nullptr);
std::vector<Argument> arguments_of(OpBackend& backend, const FusedLoop& loop);

/// Traces f of the elements of `tensors` tensors followed by `numbers` numbers, for compose():
/// tensors are parameter slots, numbers are uniform slots. C++ numbers in f are literals.
ir::Program program_of(std::uint32_t tensors, std::uint32_t numbers,
                       const std::function<std::vector<Value>(std::span<const Value>)>& f);

}  // namespace topograd::ops::detail
