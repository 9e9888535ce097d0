// Functors in Ceres' style as residual blocks: checks of sizes and rows.
#include "functor.hpp"

#include <algorithm>

namespace topograd::detail {
namespace {

/// Number of Values without an expression after each block and after the rows: reading or writing
/// one of them is an error.
constexpr std::size_t kMargin = 8;

}  // namespace

FunctorCall::FunctorCall(const Problem& problem, std::span<const ParameterBlock> blocks,
                         std::span<const int> sizes, int rows, std::string_view label)
    : blocks_(blocks.begin(), blocks.end()), rows_(rows), where_(", in residual ") {
  if (!label.empty()) where_ += "\"" + std::string(label) + "\" ";
  where_ += "#" + std::to_string(problem.residual_block_count());
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const int width = blocks[k].array.width();
    if (width != sizes[k])
      fail(ErrorCode::Shape, "block " + std::to_string(k) + detail::named(blocks[k].array.id()) +
                                 " has " + std::to_string(width) +
                                 " scalars, the functor expects " + std::to_string(sizes[k]));
  }
}

std::vector<Value> FunctorCall::rows(const FunctorBody& functor) const {
  std::size_t scalars = 0;
  for (const ParameterBlock& b : blocks_)
    scalars += static_cast<std::size_t>(b.array.width()) + kMargin;
  std::vector<Value> leaves(scalars);
  std::vector<const Value*> arguments;
  Value* next = leaves.data();
  for (const ParameterBlock& b : blocks_) {
    arguments.push_back(next);
    for (int k = 0; k < b.array.width(); ++k) *next++ = b.array(b.block, k);
    next += kMargin;
  }
  const auto count = static_cast<std::size_t>(rows_);
  std::vector<Value> rows(count + kMargin);
  try {
    if (!functor(arguments.data(), rows.data()))
      throw PointRefused("add_residual_block: the functor returned false while it was traced" +
                         where_);
  } catch (const Error& error) {
    finish_residual();
    if (error.code() != ErrorCode::StaleValue) throw;
    fail(ErrorCode::Shape,
         "the functor reads beyond a block, or a Value that it has not set "
         "(blocks have " +
             widths() + " scalars)");
  }
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const bool is_set = rows[k].bits() != 0;
    if (k < count && !is_set)
      fail(ErrorCode::Shape, "expected " + std::to_string(rows_) +
                                 " rows, but the functor does not set row " + std::to_string(k));
    if (k >= count && is_set)
      fail(ErrorCode::Shape, "expected " + std::to_string(rows_) +
                                 " rows, but the functor sets row " + std::to_string(k));
  }
  rows.resize(count);
  return rows;
}

std::string FunctorCall::widths() const {
  std::string text;
  for (const ParameterBlock& b : blocks_)
    text += (text.empty() ? "" : ", ") + std::to_string(b.array.width());
  return text;
}

void FunctorCall::fail(ErrorCode code, const std::string& what) const {
  finish_residual();  // what was traced so far is garbage
  throw Error(code, "add_residual_block: " + what + where_);
}

}  // namespace topograd::detail
