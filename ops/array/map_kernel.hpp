// Internal: expressions as kernel source, and in tiles of elements by the interpreter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../../codegen/kernel.hpp"
#include "../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../runtime/cpu/tiles/column.hpp"
#include "../backend/compute_kernel.hpp"
#include "../run/storage.hpp"
#include "expression.hpp"

namespace topograd::ops {

/// The element that item i reads: element i; always the same; or the sum of i's digits, in base of
/// a shape, times strides.
enum class Step : std::uint8_t { dense, shared, strided };

/// f64 if any of the types needs it: it represents integers exactly.
codegen::Precision precision_for(std::span<const Type> types);

/// An expression in which numbers that do not fit the push constants are literals.
struct FittedExpression {
  ir::Program program;
  std::vector<std::uint32_t> words;  ///< bits of the other numbers
  std::uint32_t numbers = 0;
  ir::Hash128 hash;  ///< of the program
};
///   room  available words of push constants
FittedExpression fit(const Expression& expression, codegen::Precision precision,
                     std::uint32_t room);

/// Names of the words: "number_0", ...
std::vector<std::string> number_words(const FittedExpression& fitted, codegen::Precision precision);
/// ", " and the numbers read from the words, as the last arguments before the results.
std::string number_arguments(const FittedExpression& fitted, codegen::Precision precision);

/// Source that reads an element as a kernel's number, and that converts a number to an element:
/// conversions to integers truncate, saturate, and convert NaN to 0.
std::string load_source(Type type, codegen::Precision precision, const std::string& element);
std::string store_source(Type type, codegen::Precision precision, const std::string& number);
/// Functions that store_source() calls, for kernels that store integers.
std::string conversion_functions(codegen::Precision precision);

/// The same for the interpreter: inputs become columns, numbers become uniforms.
ir::Program column_program(const ir::Program& program);

/// The conversion of store_source() on the host.
template <class To>
To to_element(double number) {
  if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(number);
  } else {
    constexpr double kLow = static_cast<double>(std::numeric_limits<To>::min());
    constexpr double kHigh = static_cast<double>(std::numeric_limits<To>::max());
    if (!(number > kLow)) return number != number ? To{0} : std::numeric_limits<To>::min();
    return number >= kHigh ? std::numeric_limits<To>::max() : static_cast<To>(number);
  }
}

using runtime::cpu::kTile;

/// Elements per TBB task.
inline constexpr std::size_t kGrain = 16 * kTile;

/// Elements of an input on the host, with their layout.
struct HostInput {
  Type type = Type::f32;
  const std::byte* data = nullptr;
  Step step = Step::dense;
  std::vector<std::uint32_t> strides;
};

/// Converts n elements from `first` on to numbers.
template <class T>
void load_tile(const HostInput& input, std::span<const std::uint32_t> sizes, std::size_t first,
               std::size_t n, T* out) {
  with_type(input.type, [&](auto element) {
    using E = decltype(element);
    const E* data = reinterpret_cast<const E*>(input.data);
    if (input.step == Step::dense) {
      if constexpr (std::is_same_v<E, T>) {
        std::memcpy(out, data + first, n * sizeof(T));
      } else {
        for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<T>(data[first + i]);
      }
      return;
    }
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t offset = 0, rest = first + i;
      if (input.step == Step::strided) {
        for (std::size_t d = sizes.size(); d-- > 0; rest /= sizes[d])
          offset += rest % sizes[d] * input.strides[d];
      }
      out[i] = static_cast<T>(data[offset]);
    }
  });
}

/// A compiled expression for tiles; read-only while it runs.
template <class T>
class TileExpression {
 public:
  TileExpression(const ir::Program& program, std::span<const double> numbers)
      : kernel_(column_program(program)), numbers_(numbers.begin(), numbers.end()) {}

  /// Buffers of a thread.
  struct Scratch {
    runtime::cpu::Worker<T> worker;
    runtime::cpu::Column<T> inputs;
    runtime::cpu::Binding<T> binding;
  };

  /// Memory for input k of the next run: kTile numbers.
  T* input(Scratch& scratch, std::size_t inputs, std::size_t k) const {
    if (scratch.inputs.size() < inputs * kTile) {
      scratch.inputs = runtime::cpu::Column<T>(inputs * kTile);
      std::fill_n(scratch.inputs.data(), inputs * kTile, T{0});
    }
    return scratch.inputs.data() + k * kTile;
  }
  /// Evaluates n <= kTile elements of the numbers written to input().
  void run(Scratch& scratch, std::size_t n) const {
    const runtime::cpu::TileProgram& program = kernel_.program();
    runtime::cpu::Binding<T>& binding = scratch.binding;
    binding.columns.clear();
    for (const runtime::cpu::LeafUse& use : program.columns)
      binding.columns.push_back({scratch.inputs.data() + use.slot * kTile, true});
    binding.gathers.clear();
    for (const runtime::cpu::LeafUse& use : program.gathers)
      binding.gathers.push_back({&numbers_[use.slot], nullptr});
    scratch.worker.run(kernel_, binding, 0, n);
  }
  const T* output(const Scratch& scratch, std::size_t k) const { return scratch.worker.output(k); }

 private:
  runtime::cpu::TileKernel<T> kernel_;
  std::vector<T> numbers_;
};

}  // namespace topograd::ops
