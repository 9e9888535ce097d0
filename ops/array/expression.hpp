// Functions of a few numbers, written with Values and traced, which map applies to each element.
#pragma once

#include "../../frontend/vec.hpp"
#include "../../ir/hash.hpp"
#include "../../ir/program.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace topograd::ops {

namespace detail {

template <std::size_t>
using ValueAt = const Value&;

template <class R>
std::vector<Value> outputs_of(R&& result) {
  if constexpr (std::is_convertible_v<R, Value>) {
    return {Value(std::forward<R>(result))};
  } else if constexpr (std::is_same_v<std::decay_t<R>, Bool>) {
    return {result.value()};  // 1 or 0
  } else if constexpr (VecType<std::decay_t<R>>) {
    std::vector<Value> out;
    for (int k = 0; k < std::decay_t<R>::kSize; ++k) out.push_back(result[k]);
    return out;
  } else {
    return {std::begin(result), std::end(result)};
  }
}

}  // namespace detail

/// A traced function. C++ numbers in it are parameters of the kernel, so other numbers need no
/// other kernel (up to a dozen; further ones are part of the kernel).
class Expression {
 public:
  using Function = std::function<std::vector<Value>(std::span<const Value>)>;

  ///   call  for messages    inputs  number of arguments, at least 1
  ///
  /// The function runs twice and must give the same.
  ///
  /// Throws Error{Unsupported} for an `if` on a Value (use select), Error{NoParameters} if the
  /// result depends on no argument, Error{InvalidArgument} for a function that counts its calls or
  /// draws random numbers, Error{WrongProblem}. Cost: some tens of µs.
  Expression(const char* call, std::size_t inputs, const Function& function);

  /// f(Value, Value, ...) -> Value, Vec2 ... Vec4, std::array or vector of Values.
  template <std::size_t N, class F>
  static Expression of(const char* call, const F& f) {
    return Expression(call, N, [&](std::span<const Value> values) {
      return apply(f, values, std::make_index_sequence<N>());
    });
  }
  /// Number of results of f.
  template <std::size_t N, class F>
  static constexpr std::size_t results() {
    return results_of<F>(std::make_index_sequence<N>());
  }

  const ir::Program& program() const { return program_; }
  /// Values of the data leaves.
  const std::vector<double>& numbers() const { return numbers_; }
  std::size_t inputs() const { return program_.leaves.parameters; }
  std::size_t outputs() const { return program_.outputs.size(); }
  /// Hash of the program without its numbers.
  const ir::Hash128& hash() const { return hash_; }
  /// Operations per element.
  double operations() const { return operations_; }

 private:
  template <class F, std::size_t... K>
  static std::vector<Value> apply(const F& f, std::span<const Value> values,
                                  std::index_sequence<K...>) {
    return detail::outputs_of(f(values[K]...));
  }
  template <class F, std::size_t... K>
  static constexpr std::size_t results_of(std::index_sequence<K...>) {
    using R = std::invoke_result_t<const F&, detail::ValueAt<K>...>;
    if constexpr (std::is_convertible_v<R, Value> || std::is_same_v<std::decay_t<R>, Bool>)
      return 1;
    if constexpr (VecType<std::decay_t<R>>) return std::decay_t<R>::kSize;
    if constexpr (requires { std::tuple_size<std::decay_t<R>>::value; })
      return std::tuple_size<std::decay_t<R>>::value;
    return 0;  // unknown before tracing
  }

  ir::Program program_;
  std::vector<double> numbers_;
  ir::Hash128 hash_;
  double operations_ = 1;
};

/// A hash of all contents of a program.
ir::Hash128 hash_of(const ir::Program& program);

/// True if f(a, b) and f(b, a) are recognised as equal. False does not mean that they differ.
bool commutes(const Expression& f);

}  // namespace topograd::ops
