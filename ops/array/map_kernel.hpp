// Internal: expressions as text of kernels and as programs of the interpreter.
#pragma once

#include "../../codegen/kernel.hpp"
#include "../../runtime/cpu/interpreter/interpreter.hpp"
#include "../backend/kernel_text.hpp"
#include "../run/slice.hpp"
#include "expression.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::ops {

/// Where an input's element for item i lies: at i; the same for all; or at the sum of i's digits,
/// in base of a shape, times strides.
enum class Step : std::uint8_t { dense, shared, strided };

/// f64 where any of the types needs it: integers are exact there.
codegen::Precision precision_for(std::span<const Type> types);

/// The expression with numbers that do not fit the push constants made part of it.
struct FittedExpression {
  ir::Program program;
  std::vector<std::uint32_t> words;  ///< the bits of those that do
  std::uint32_t numbers = 0;
  ir::Hash128 hash;  ///< of the program
};
///   room  words of push constants that it may have
FittedExpression fit(const Expression& expression, codegen::Precision precision,
                     std::uint32_t room);

/// "number_0", ...: names of the words.
std::vector<std::string> number_words(const FittedExpression& fitted, codegen::Precision precision);
/// ", " and the numbers read from them, as the last arguments before the results.
std::string number_arguments(const FittedExpression& fitted, codegen::Precision precision);

/// What reads an element of that type as the kernel's, and what makes an element of a number:
/// conversions to integers truncate, end at the type's limits, and take NaN for 0.
std::string load_text(Type type, codegen::Precision precision, const std::string& element);
std::string store_text(Type type, codegen::Precision precision, const std::string& number);
/// Functions that store_text() calls, for kernels that store integers.
std::string conversion_functions(codegen::Precision precision);

/// The same for the interpreter: inputs are its columns, numbers its uniforms.
ir::Program column_program(const ir::Program& program);

/// The conversion of store_text().
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
