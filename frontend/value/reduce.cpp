// Balanced trees over a span of Values.
#include "reduce.hpp"
#include "../../ir/error.hpp"

#include <string>
#include <vector>

namespace topograd {
namespace {

/// Combines neighbours, level by level; an unpaired one goes to the next level.
Value tree(ir::Op op, std::vector<Value> level) {
  while (level.size() > 1) {
    std::size_t next = 0;
    for (std::size_t k = 0; k < level.size(); k += 2, ++next)
      level[next] = k + 1 < level.size() ? Value::make(op, level[k], level[k + 1]) : level[k];
    level.resize(next);
  }
  return level.front();
}

Value tree_of_some(const char* call, ir::Op op, std::span<const Value> values) {
  if (values.empty())
    throw Error(ErrorCode::Shape, std::string(call) + ": expected at least one Value, got none");
  return tree(op, {values.begin(), values.end()});
}

}  // namespace

Value sum(std::span<const Value> values) {
  return values.empty() ? literal(0.0) : tree_of_some("sum", ir::Op::Add, values);
}

Value mean(std::span<const Value> values) {
  return tree_of_some("mean", ir::Op::Add, values) / literal(static_cast<double>(values.size()));
}

Value min(std::span<const Value> values) { return tree_of_some("min", ir::Op::Min, values); }
Value max(std::span<const Value> values) { return tree_of_some("max", ir::Op::Max, values); }

Value norm(std::span<const Value> values) {
  if (values.empty()) return literal(0.0);
  std::vector<Value> squares;
  for (const Value& v : values) squares.push_back(square(v));
  const Value s = tree(ir::Op::Add, std::move(squares));
  const Value zero = literal(0.0);
  return select(s == zero, zero, sqrt(s));
}

// Where a = b both sides of `first` are the same smooth function.
Value logaddexp(const Value& a, const Value& b) {
  const Bool first = a >= b;
  const Value high = select(first, a, b), low = select(first, b, a);
  const Value gap = low - high;  // NaN for infinities of one sign
  const Value half = literal(0.5);
  return select(a == b && gap != gap, half * a + half * b, high + softplus(gap));
}

}  // namespace topograd
