// Internal: expressions as kernel source and as programs of the interpreter.
#pragma once

#include "../../codegen/kernel.hpp"
#include "../../runtime/cpu/interpreter/interpreter.hpp"
#include "../backend/compute_kernel.hpp"
#include "../run/slice.hpp"
#include "expression.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace topograd::ops
