// Internal: kernels of cosine similarity and of the k largest.
#include "search_source.hpp"

#include "../fused_source.hpp"

namespace topograd::ops::detail {
namespace {

// A factor for numbers whose sum of squares is too small or too large to be accurate.
constexpr std::string_view kScaleFor = R"(
{T} scale_for({T} squares) {
  if (squares > {large}) return {down};
  return squares < {small} ? {large} : {T}(1.0);
}
)";

// If a sum of squares of the group is too small or too large, the group repeats it with scaling.
constexpr std::string_view kCosine = R"(
  uint self = gl_LocalInvocationID.x, lane = self & 31u, slot = self >> 5u;
  uint at_query = gl_WorkGroupID.y * depth;
  for (uint first = gl_WorkGroupID.x * 8u; first < rows; first += gl_NumWorkGroups.x * 8u) {
    uint row = first + slot;
    {T} query_scale = {T}(1.0), target_scale = {T}(1.0);
    for (uint attempt = 0u; attempt < 2u; ++attempt) {
      {T} dot_product = {T}(0.0), squares = {T}(0.0), query_squares = {T}(0.0);
      if (row < rows) {
        for (uint i = lane; i < depth; i += 32u) {
          {T} q = query_scale * query(at_query + i);
          {T} t = target_scale * targets(row * depth + i);
          dot_product = fma(q, t, dot_product);
          squares = fma(t, t, squares);
          query_squares = fma(q, q, query_squares);
        }
      }
      barrier();
      if (self == 0u) again = 0u;
      products[self] = dot_product;
      lengths[self] = squares;
      query_lengths[self] = query_squares;
      for (uint width = 16u; width > 0u; width >>= 1u) {
        barrier();
        if (lane < width) {
          products[self] += products[self + width];
          lengths[self] += lengths[self + width];
          query_lengths[self] += query_lengths[self + width];
        }
      }
      barrier();
      query_scale = scale_for(query_lengths[slot * 32u]);
      target_scale = scale_for(lengths[slot * 32u]);
      if (lane == 0u && row < rows) {
        {T} scale = sqrt(lengths[self]) * sqrt(query_lengths[self]);
        result(gl_WorkGroupID.y * rows + row) =
            scale == {T}(0.0) ? {T}(0.0) : products[self] / scale;
        if (query_scale != {T}(1.0) || target_scale != {T}(1.0)) again = 1u;
      }
      barrier();
      if (again == 0u) break;
    }
  }
)";

// One invocation per row.
constexpr std::string_view kShortCosine = R"(
  uint at_query = gl_WorkGroupID.y * depth, stride = gl_NumWorkGroups.x * 256u;
  for (uint row = gl_WorkGroupID.x * 256u + gl_LocalInvocationID.x; row < rows; row += stride) {
    {T} query_scale = {T}(1.0), target_scale = {T}(1.0), similarity = {T}(0.0);
    for (uint attempt = 0u; attempt < 2u; ++attempt) {
      {T} dot_product = {T}(0.0), squares = {T}(0.0), query_squares = {T}(0.0);
      for (uint i = 0u; i < depth; ++i) {
        {T} q = query_scale * query(at_query + i);
        {T} t = target_scale * targets(row * depth + i);
        dot_product = fma(q, t, dot_product);
        squares = fma(t, t, squares);
        query_squares = fma(q, q, query_squares);
      }
      {T} scale = sqrt(squares) * sqrt(query_squares);
      similarity = scale == {T}(0.0) ? {T}(0.0) : dot_product / scale;
      query_scale = scale_for(query_squares);
      target_scale = scale_for(squares);
      if (query_scale == {T}(1.0) && target_scale == {T}(1.0)) break;
    }
    result(gl_WorkGroupID.y * rows + row) = similarity;
  }
)";

// The order of entries: NaN, then larger numbers, then smaller indices.
constexpr std::string_view kBefore = R"(
bool before({T} a, uint i, {T} b, uint j) {
  if (is_nan(a) != is_nan(b)) return is_nan(a);
  if (!is_nan(a) && a != b) return a > b;
  return i < j;
}
)";

constexpr std::string_view kTopK = R"(
  uint self = gl_LocalInvocationID.x;
  uint number = linear_group();
  if (number >= rows * pieces) return;
  uint row = number / pieces, begin = number % pieces * segment;
  uint end = min(depth, begin + segment);
  {T} last = {T}(0.0);
  uint last_place = ~0u;
  for (uint found = 0u; found < k; ++found) {
    {T} best = {T}(0.0);
    uint place = ~0u;
    for (uint i = begin + self; i < end; i += 256u) {
      {T} value = source(row * depth + i);
      uint at = i;
      if (carried != 0u) {
        {T} from = places(row * depth + i);
        if (from < {T}(0.0)) continue;
        at = uint(from);
      }
      if (found > 0u && !before(last, last_place, value, at)) continue;
      if (place == ~0u || before(value, at, best, place)) {
        best = value;
        place = at;
      }
    }
    barrier();
    bests[self] = best;
    best_places[self] = place;
    for (uint width = 128u; width > 0u; width >>= 1u) {
      barrier();
      if (self < width) {
        {T} other = bests[self + width];
        uint other_place = best_places[self + width];
        if (other_place != ~0u &&
            (place == ~0u || before(other, other_place, best, place))) {
          best = other;
          place = other_place;
        }
        bests[self] = best;
        best_places[self] = place;
      }
    }
    barrier();
    last = bests[0];
    last_place = best_places[0];
    if (self == 0u) {
      values(number * k + found) = last;
      indices(number * k + found) = last_place == ~0u ? {T}(-1.0) : {T}(last_place);
    }
    if (last_place == ~0u) {  // none is left, for all invocations alike
      for (uint rest = found + 1u + self; rest < k; rest += 256u) {
        values(number * k + rest) = {T}(0.0);
        indices(number * k + rest) = {T}(-1.0);
      }
      return;
    }
  }
)";

std::string filled(std::string_view pattern, codegen::Precision precision) {
  const bool wide = precision == codegen::Precision::f64;
  return codegen::substitute(
      pattern.substr(1), {{"T", std::string(codegen::scalar_type(precision))},
                          {"large", wide ? "8.452712498170644e+270LF" : "1.2676506002282294e+30"},
                          {"small", wide ? "1.1830521861667747e-271LF" : "7.888609052210118e-31"},
                          {"down", wide ? "1.90109156629516e-211LF" : "8.271806125530277e-25"}});
}

}  // namespace

ComputeKernel cosine_kernel(codegen::Precision precision, bool by_invocation) {
  const std::string type(codegen::scalar_type(precision));
  KernelParts parts{.name = by_invocation ? "cosine_similarity_short" : "cosine_similarity"};
  parts.arguments = {{"query", type, Access::read},
                     {"targets", type, Access::read},
                     {"result", type, Access::write}};
  parts.words = {"rows", "depth"};
  parts.functions = filled(kScaleFor, precision);
  if (!by_invocation) {
    parts.functions = "shared " + type + " products[256], lengths[256], query_lengths[256];\n" +
                      "shared uint again;\n" + parts.functions;
  }
  parts.body = filled(by_invocation ? kShortCosine : kCosine, precision);
  return make_kernel(parts);
}

ComputeKernel top_k_kernel(codegen::Precision precision) {
  const std::string type(codegen::scalar_type(precision));
  KernelParts parts{.name = "top_k"};
  parts.arguments = {{"source", type, Access::read},
                     {"places", type, Access::read},
                     {"values", type, Access::write},
                     {"indices", type, Access::write}};
  parts.words = {"rows", "depth", "segment", "pieces", "k", "carried"};
  parts.functions = is_nan_glsl(precision) + "\n" + filled(kBefore, precision) + "shared " + type +
                    " bests[256];\nshared uint best_places[256];\n";
  parts.body = filled(kTopK, precision);
  return make_kernel(parts);
}

ComputeKernel put_back_kernel(codegen::Precision precision) {
  const std::string scalar(codegen::scalar_type(precision));
  return make_kernel({.name = "put_back_" + scalar,
                      .arguments = {{"numbers", scalar, Access::read},
                                    {"places", scalar, Access::read},
                                    {"target", scalar, Access::write}},
                      .words = {"count", "k", "depth"},
                      .body = "  uint i = linear_item();\n"
                              "  if (i < count) target(i / k * depth + uint(places(i))) = "
                              "numbers(i);\n"});
}

}  // namespace topograd::ops::detail
