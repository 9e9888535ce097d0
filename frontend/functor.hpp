// add_residual_block(): adds a residual block that a functor in Ceres' style computes, a callable
// with one pointer for each block of unknowns and one for the rows.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../ir/error.hpp"
#include "problem.hpp"

namespace topograd {

/// A callable cannot be evaluated at the present values: a functor returned false. If a branch is
/// being traced again at a trial point, the trial is rejected, as for a cost that is not finite.
class PointRefused : public Error {
 public:
  explicit PointRefused(const std::string& message) : Error(ErrorCode::Unsupported, message) {}
};

namespace detail {

/// A functor with one argument per block, wrapped to take an array of blocks.
using FunctorBody = std::function<bool(const Value* const* blocks, Value* rows)>;

/// The arguments of a functor and its number of rows.
class FunctorCall {
 public:
  /// Throws Error{Shape} if `sizes` are given and differ from the blocks' widths.
  FunctorCall(const Problem& problem, std::span<const ParameterBlock> blocks,
              std::span<const int> sizes, int rows, std::string_view label);

  /// Calls the functor and returns its rows. Throws Error{Shape} if it reads beyond a block or does
  /// not set exactly its rows, Error{Unsupported} if it returns false.
  std::vector<Value> rows(const FunctorBody& functor) const;

 private:
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const;
  std::string widths() const;

  std::vector<ParameterBlock> blocks_;
  int rows_;
  std::string where_;  ///< describes the residual in messages
};

template <class Functor, std::size_t... I>
bool call_functor(const Functor& functor, const Value* const* blocks, Value* rows,
                  std::index_sequence<I...>) {
  return functor(blocks[I]..., rows);
}

}  // namespace detail

/// Adds the residual block that a functor computes by
/// `template <class T> bool operator()(const T* block0, ..., T* rows) const`, as written for Ceres:
/// add_residual_block<2>(problem, functor, {camera.block(3), point.block(7)}).
///
///   Rows      number of rows that the functor writes
///   Sizes     none, or one number per block, checked against the blocks' widths
///   blocks    in the order of the functor's arguments
///
/// A copy of the functor is called with T = Value; numbers that it holds become data. Throws
/// Error{Shape} if a block's width differs from Sizes, or the functor reads beyond a block or does
/// not set exactly `Rows` rows; Error{Unsupported} if it returns false; and what add_residual
/// throws. Cost: that of add_residual, and about 0.2 µs.
template <int Rows, int... Sizes, class Functor, std::size_t N>
Residual add_residual_block(Problem& problem, const Functor& functor,
                            const ParameterBlock (&blocks)[N],
                            const ResidualOptions& options = {}) {
  static_assert(Rows > 0, "a residual block has at least one row");
  static_assert(sizeof...(Sizes) == 0 || sizeof...(Sizes) == N, "one size a block, or none");
  const std::array<int, sizeof...(Sizes)> sizes = {Sizes...};
  const detail::FunctorCall call(problem, blocks, sizes, Rows, options.label);
  const auto rows = [functor, call] {
    return call.rows([&functor](const Value* const* arguments, Value* out) {
      return detail::call_functor(functor, arguments, out, std::make_index_sequence<N>());
    });
  };
  return problem.add_residual(rows, options);  // traced again when a branch changes
}

}  // namespace topograd
