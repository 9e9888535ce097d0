// Finding what is near or large: cosine similarity and the k largest.
#pragma once

#include "../tensor.hpp"

namespace topograd::ops {

/// query · target / (|query| |target|), in one kernel that reads the targets once a query; 0 where
/// a length is 0, and so are its derivatives there. Devices may take denormal numbers for 0.
///
///   query    (d) or (q, d)    targets  (n, d)    result  (n) or (q, n)
///
/// Derivatives go through; where they are recorded, squares must be within the type's range. Throws
/// Error{Shape} "cosine_similarity: expected a query (d) or (q, d) and targets (n, d), got (3) and
/// (5, 4)".
Tensor cosine_similarity(const Tensor& query, const Tensor& targets);

struct TopK {
  Tensor values;   ///< (..., k), the largest first; NaN before all numbers
  Tensor indices;  ///< their places on the last axis, as numbers of the tensor's type
};

/// The k largest entries of the last axis; of equal ones the first come first. Derivatives of
/// the values go to the entries that they were.
///
/// Throws Error{InvalidArgument} "top_k: expected 0 < k <= 7, got 9", and for rows of f32 of more
/// than 2^24 entries, whose places f32 does not hold.
TopK top_k(const Tensor& a, std::int64_t k);

}  // namespace topograd::ops
