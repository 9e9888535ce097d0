// Cosine similarity and the k largest entries.
#pragma once

#include "../tensor.hpp"

namespace topograd::ops {

/// query · target / (|query| |target|), in one kernel that reads the targets once per query. The
/// result and its derivatives are 0 if a length is 0. Devices may flush denormal numbers to 0.
///
///   query    (d) or (q, d)    targets  (n, d)    result  (n) or (q, n)
///
/// Differentiable; squares must then be within the type's range. Throws Error{Shape}
/// "cosine_similarity: expected a query (d) or (q, d) and targets (n, d), got (3) and (5, 4)".
Tensor cosine_similarity(const Tensor& query, const Tensor& targets);

struct TopK {
  Tensor values;   ///< (..., k), descending; NaN before all numbers
  Tensor indices;  ///< indices on the last axis, as numbers of the tensor's type
};

/// The k largest entries of the last axis; ties are in the order of their indices. Derivatives of
/// the values go to the selected entries.
///
/// Throws Error{InvalidArgument} "top_k: expected 0 < k <= 7, got 9", and for rows of f32 with more
/// than 2^24 entries, whose indices f32 cannot represent.
TopK top_k(const Tensor& a, std::int64_t k);

}  // namespace topograd::ops
