// Reductions over any number of Values, as balanced trees.
#pragma once

#include "math.hpp"

#include <initializer_list>
#include <span>

namespace topograd {

/// Sum, as a tree of depth log2 n: rounding errors grow with the logarithm. The literal 0 if
/// `values` is empty.
Value sum(std::span<const Value> values);
/// Sum divided by the count. Throws Error{Shape} if there are no values; so do min and max.
Value mean(std::span<const Value> values);
/// The smallest and the largest: NaN if any value is NaN; ties of two sub-trees halve the
/// derivative.
Value min(std::span<const Value> values);
Value max(std::span<const Value> values);
/// Root of the sum of squares, in norm(Vec3)'s range; derivative 0 where all are 0. 0 if empty.
Value norm(std::span<const Value> values);
/// log(exp(a) + exp(b)) without overflow; its derivatives exp(a − y) and exp(b − y) keep their
/// digits for any a and b. Infinite operands have limits, halves if both are the same infinity.
Value logaddexp(const Value& a, const Value& b);

inline Value sum(std::initializer_list<Value> v) { return sum(std::span(v.begin(), v.size())); }
inline Value mean(std::initializer_list<Value> v) { return mean(std::span(v.begin(), v.size())); }
inline Value min(std::initializer_list<Value> v) { return min(std::span(v.begin(), v.size())); }
inline Value max(std::initializer_list<Value> v) { return max(std::span(v.begin(), v.size())); }
inline Value norm(std::initializer_list<Value> v) { return norm(std::span(v.begin(), v.size())); }

}  // namespace topograd
