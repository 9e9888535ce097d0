// Largest elements, sorting and look-ups of tensors.
#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../array/sort/sort.hpp"
#include "../../backend/kernel_store.hpp"
#include "../arrays.hpp"
#include "../autograd.hpp"
#include "../fused_run.hpp"
#include "../fused_source.hpp"
#include "../operations.hpp"
#include "../state.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace topograd::ops::detail {

/// Number of rows that f32 can represent.
inline constexpr std::int64_t kSortedRows = std::int64_t{1} << 22;

namespace {

/// Copies numbers from the host to the device of `like`.
template <class T>
Array<T> beside(const Tensor& like, const std::vector<T>& numbers) {
  Array<T> out(numbers);
  if (like.placed()) out.to(*like.placed());
  return out;
}

/// Sort key of each entry: twice the row, plus one for numbers: NaN is first in each row.
template <class T>
Array<T> groups_of(const Tensor& a, std::int64_t rows) {
  Tensor row = arange(rows, a.type()).reshape({rows, 1});
  if (a.placed()) row = row.to(*a.placed());
  return array_of<T>(
      map([](Value x, Value r) { return select(x == x, r + r + literal(1.0), r + r); }, a, row));
}

template <class T>
TopK sorted(const Tensor& a, std::int64_t k) {
  const std::int64_t depth = a.size(-1), rows = a.count() / depth;
  const Tensor flat = a.reshape({rows, depth});
  // Stable sorts, the most significant last: index, -value, NaN, row. Adding 0 converts -0 to 0.
  const Array<std::uint32_t> falling = argsort(array_of<T>(-(flat + 0.0)));
  const Array<std::uint32_t> by_row = argsort(gather(groups_of<T>(flat, rows), falling));
  std::vector<std::uint32_t> first;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t n = 0; n < k; ++n)
      first.push_back(static_cast<std::uint32_t>(row * depth + n));
  const Array<std::uint32_t> entries = gather(gather(falling, by_row), beside(a, first));
  Tensor index = arange(depth, a.type());
  if (a.placed()) index = index.to(*a.placed());
  Shape shape = a.shape();
  shape.back() = k;
  return {tensor(gather(array_of<T>(flat), entries), shape),
          tensor(gather(array_of<T>(index.broadcast_to({rows, depth})), entries), shape)};
}

/// top_k() of f32 or f64 without checks and derivatives, for at most kSortedRows rows. Cost: two
/// sorts of all entries, for any k.
TopK sorted_top_k(const Tensor& a, std::int64_t k) {
  return a.type() == Type::f64 ? sorted<double>(a, k) : sorted<float>(a, k);
}

}  // namespace

}  // namespace topograd::ops::detail

namespace topograd::ops {
namespace {

using detail::View;

struct Similarity {
  View query, targets, result;
  Type type;
  std::uint64_t queries, rows, depth;
};

/// A factor for numbers whose sum of squares is too small or too large to be accurate.
double scale_for(double squares) {
  if (squares > 0x1p900) return 0x1p-700;
  return squares < 0x1p-900 ? 0x1p900 : 1;
}

/// Cosine of rows of d numbers; 0 if a length is 0.
template <class T>
double similarity(const T* query, const T* target, std::size_t d) {
  double query_scale = 1, target_scale = 1;
  for (bool again = false;; again = true) {
    double product = 0, length = 0, query_length = 0;
    for (std::size_t i = 0; i < d; ++i) {
      const double a = query_scale * static_cast<double>(query[i]);
      const double b = target_scale * static_cast<double>(target[i]);
      product += a * b;
      length += b * b;
      query_length += a * a;
    }
    query_scale = scale_for(query_length);
    target_scale = scale_for(length);
    const double scale = std::sqrt(length) * std::sqrt(query_length);
    if (again || (query_scale == 1 && target_scale == 1)) return scale == 0 ? 0 : product / scale;
  }
}

template <class T>
void compare_on_cpu(const Similarity& s) {
  const T* query = detail::host_read<T>(s.query);
  const T* targets = detail::host_read<T>(s.targets);
  T* result = detail::host_write<T>(s.result);
  runtime::cpu::Pool pool(0);
  const std::size_t grain = std::max<std::uint64_t>(1, 16384 / std::max<std::uint64_t>(1, s.depth));
  pool.for_ranges(s.queries * s.rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      result[k] = static_cast<T>(
          similarity(query + k / s.rows * s.depth, targets + k % s.rows * s.depth, s.depth));
    }
  });
}

/// Work of three sums of products for each pair of rows.
Work similarity_work(const Similarity& s) {
  const std::uint64_t pairs = s.queries * s.rows, number = size_of(s.type);
  return {.operations = 6 * pairs * s.depth,
          .bytes_read = (s.queries + s.rows) * s.depth * number,
          .bytes_written = pairs * number,
          .reads = static_cast<double>(2 * pairs * s.depth * number),
          .steps = runtime::hybrid::tree_steps(static_cast<double>(s.depth)),
          .pattern = runtime::hybrid::MemoryPattern::reduction};
}

void compare_on_device(OpBackend& backend, const Similarity& s) {
  // One invocation handles a row of at most a subgroup's size. On software devices, where barriers
  // are expensive and adjacent reads are no advantage, it handles longer rows, too.
  const bool by_invocation = s.depth <= (backend.limits().occupied_by_few ? 1024 : 32);
  const bool wide = s.type == Type::f64;
  const ComputeKernel& kernel = kernel_for(
      by_invocation ? KernelFile::cosine_similarity_short : KernelFile::cosine_similarity, s.type,
      {{"large", wide ? "8.452712498170644e+270LF" : "1.2676506002282294e+30"},
       {"small", wide ? "1.1830521861667747e-271LF" : "7.888609052210118e-31"},
       {"down", wide ? "1.90109156629516e-211LF" : "8.271806125530277e-25"}});
  const std::uint64_t rows = by_invocation ? 256 : 8,
                      turns = by_invocation ? s.depth : s.depth / 32;
  const std::uint64_t most = std::min(backend.limits().groups, 1u << 16);
  const std::uint64_t across = std::min((s.rows + rows - 1) / rows, most);
  const std::uint64_t rounds = ((s.rows + rows - 1) / rows + across - 1) / across;
  if (2 * rounds * (turns + 10) > backend.limits().loop_iterations) {
    throw Error(ErrorCode::Unsupported,
                "cosine_similarity: expected fewer numbers for this device, got rows of " +
                    std::to_string(s.depth));
  }
  const std::uint32_t words[] = {word(s.rows), word(s.depth)};
  for (std::uint64_t first = 0; first < s.queries; first += most) {
    const std::uint64_t queries = std::min(most, s.queries - first);
    View query = s.query, result = s.result;
    query.offset += static_cast<std::int64_t>(first * s.depth);
    result.offset += static_cast<std::int64_t>(first * s.rows);
    const Argument arguments[] = {
        detail::argument(backend, query, queries * s.depth, s.type, Access::read),
        detail::argument(backend, s.targets, s.rows * s.depth, s.type, Access::read),
        detail::argument(backend, result, queries * s.rows, s.type, Access::write, first > 0)};
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = {word(across), word(queries)}});
  }
}

/// 1 over the lengths of rows, 0 for rows of zeros, so that their result and derivatives are 0.
Tensor inverse_lengths(const Tensor& rows) {
  static const ir::Program& inverse =
      *new ir::Program(detail::program_of(1, 0, [](std::span<const Value> v) -> std::vector<Value> {
        return {select(v[0] > literal(0.0), topograd::rsqrt(v[0]), literal(0.0))};
      }));
  const Tensor squares = sum(square(rows), {-1}, true);
  return detail::compose("cosine_similarity", inverse, {&squares, 1}, {});
}

/// The same composed of differentiable operations.
Tensor similarity_of_parts(const Tensor& query, const Tensor& targets) {
  return matmul(query, targets.transpose()) * inverse_lengths(query) *
         inverse_lengths(targets).transpose();
}

}  // namespace

Tensor cosine_similarity(const Tensor& query, const Tensor& targets) {
  const Tensor both[] = {query, targets};
  const Type type = detail::common_type("cosine_similarity", both);
  const auto device = detail::common_device("cosine_similarity", both);
  if ((query.rank() != 1 && query.rank() != 2) || targets.rank() != 2 ||
      query.size(-1) != targets.size(1)) {
    throw Error(ErrorCode::Shape,
                "cosine_similarity: expected a query (d) or (q, d) and targets (n, d), got " +
                    to_text(query.shape()) + " and " + to_text(targets.shape()));
  }
  const std::int64_t queries = query.rank() == 2 ? query.size(0) : 1, rows = targets.size(0);
  const Shape shape = query.rank() == 2 ? Shape{queries, rows} : Shape{rows};
  if (detail::wants_grad(both))
    return similarity_of_parts(query.reshape({queries, query.size(-1)}), targets).reshape(shape);
  Tensor out = detail::make_tensor(shape, type, device);
  if (out.count() == 0) return out;
  const Similarity s{detail::contiguous_data(query.to(type)),
                     detail::contiguous_data(targets.to(type)),
                     out.state()->data,
                     type,
                     static_cast<std::uint64_t>(queries),
                     static_cast<std::uint64_t>(rows),
                     static_cast<std::uint64_t>(targets.size(1))};
  detail::run_op(
      {.op = Operation::CosineSimilarity,
       .kernel = key_of("cosine_similarity", type),
       .size = s.queries * s.rows * s.depth,
       .work = similarity_work(s),
       .inputs = {s.query.storage, s.targets.storage},
       .outputs = {s.result.storage},
       .on_cpu = [&] { type == Type::f64 ? compare_on_cpu<double>(s) : compare_on_cpu<float>(s); },
       .on_device = [&](OpBackend& backend) { compare_on_device(backend, s); },
       .needs_float64 = type == Type::f64},
      device);
  return out;
}

namespace {

struct Selection {
  View source, values, indices;
  Type type;
  std::uint64_t rows, depth, k;
};

/// One comparison per number with the smallest selected entry, and an insertion for some: k (1 +
/// ln(depth / k)) per row of numbers in random order.
Work selection_work(const Selection& s) {
  const auto depth = static_cast<double>(s.depth), k = static_cast<double>(s.k);
  const double chosen = k * (1 + std::log(depth / k));
  return {.operations = static_cast<double>(s.rows) * (depth + chosen * std::log2(k + 1)),
          .bytes_read = s.rows * s.depth * size_of(s.type),
          .bytes_written = 2 * s.rows * s.k * size_of(s.type),
          .steps = runtime::hybrid::tree_steps(depth),
          .pattern = runtime::hybrid::MemoryPattern::reduction};
}

template <class T>
void select_on_cpu(const Selection& s) {
  const T* source = detail::host_read<T>(s.source);
  T* values = detail::host_write<T>(s.values);
  T* indices = detail::host_write<T>(s.indices);
  runtime::cpu::Pool pool(0);
  pool.for_ranges(s.rows, 1, [&](std::size_t row, std::size_t) {
    const T* from = source + row * s.depth;
    std::vector<std::uint32_t> order(s.depth);
    std::iota(order.begin(), order.end(), 0u);
    const auto before = [&](std::uint32_t i, std::uint32_t j) {
      const T a = from[i], b = from[j];
      if (std::isnan(a) != std::isnan(b)) return std::isnan(a);
      if (!std::isnan(a) && a != b) return a > b;
      return i < j;
    };
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(s.k), order.end(),
                      before);
    for (std::size_t n = 0; n < s.k; ++n) {
      values[row * s.k + n] = from[order[n]];
      indices[row * s.k + n] = static_cast<T>(order[n]);
    }
  });
}

/// Length of the part of a row that is searched at once.
std::uint64_t segment_for(std::uint64_t k) { return std::max<std::uint64_t>(8192, 4 * k); }

/// Loop iterations of an invocation that finds the k largest entries sequentially.
std::uint64_t turns_for(std::uint64_t k, std::uint64_t depth) { return k * (depth / 256 + 12); }

/// True if sorting the rows is faster than finding the entries sequentially.
bool is_sorted_rather(const Tensor& a, std::int64_t k) {
  constexpr std::uint64_t kMostTurns = 1 << 15;
  const auto depth = static_cast<std::uint64_t>(a.size(-1)), found = static_cast<std::uint64_t>(k);
  const auto device = detail::runs_on(a.placed());
  return device && !device->is_cpu() &&
         turns_for(found, std::min(depth, 2 * segment_for(found))) > kMostTurns &&
         a.count() / a.size(-1) <= detail::kSortedRows;
}

/// Searches pieces of long rows first, then combines their results.
void select_on_device(OpBackend& backend, const Selection& s) {
  const ComputeKernel& kernel =
      kernel_for(KernelFile::top_k, s.type, {{"is_nan", detail::is_nan_glsl(s.type)}});
  View source = s.source, taken = s.source;
  std::uint64_t depth = s.depth;
  for (bool carried = false;; carried = true) {
    const std::uint64_t segment = segment_for(s.k);
    const std::uint64_t pieces = depth <= 2 * segment ? 1 : (depth + segment - 1) / segment;
    const std::uint64_t found = s.rows * pieces * s.k;
    const auto scratch = [&] {
      return View{std::make_shared<Storage>(found * size_of(s.type), "top_k"), 0, {}};
    };
    const View values = pieces == 1 ? s.values : scratch();
    const View indices = pieces == 1 ? s.indices : scratch();
    const Argument arguments[] = {
        detail::argument(backend, source, s.rows * depth, s.type, Access::read),
        detail::argument(backend, taken, s.rows * depth, s.type, Access::read),
        detail::argument(backend, values, found, s.type, Access::write),
        detail::argument(backend, indices, found, s.type, Access::write)};
    const std::uint64_t length = pieces == 1 ? depth : segment;
    if (turns_for(s.k, length) > backend.limits().loop_iterations) {
      throw Error(
          ErrorCode::Unsupported,
          "top_k: expected a smaller k for the loops of this device, got " + std::to_string(s.k));
    }
    const std::uint32_t words[] = {word(s.rows), word(depth), word(length),
                                   word(pieces), word(s.k),   carried};
    const std::uint64_t groups = s.rows * pieces;
    const std::uint64_t across =
        std::min<std::uint64_t>(groups, std::min(backend.limits().groups, 32768u));
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = {word(across), word((groups + across - 1) / across)}});
    if (pieces == 1) return;
    source = values;
    taken = indices;
    depth = pieces * s.k;
  }
}

/// Zeros with `from` at the selected indices of rows.
Tensor put_back(const Tensor& from, const Tensor& taken, const Shape& shape) {
  const Type type = from.type();
  Tensor out = detail::make_tensor(shape, type, from.placed());
  const View numbers = detail::contiguous_data(from), at = detail::contiguous_data(taken);
  const View to = out.state()->data;
  const auto count = static_cast<std::uint64_t>(from.count());
  const auto k = static_cast<std::uint64_t>(from.size(-1));
  const auto depth = static_cast<std::uint64_t>(shape.back());
  const auto on_cpu = [&](auto element) {
    using T = decltype(element);
    const T *values = detail::host_read<T>(numbers), *where = detail::host_read<T>(at);
    T* target = detail::host_write<T>(to);
    std::fill_n(target, out.count(), T{0});
    for (std::uint64_t i = 0; i < count; ++i)
      target[i / k * depth + static_cast<std::uint64_t>(where[i])] = values[i];
  };
  const auto on_device = [&](OpBackend& backend) {
    const ComputeKernel& kernel = kernel_for(KernelFile::top_k_put_back, type);
    const Argument target =
        detail::argument(backend, to, static_cast<std::uint64_t>(out.count()), type, Access::write);
    backend.fill(target.memory, target.offset, target.bytes, 0);
    const Argument arguments[] = {
        detail::argument(backend, numbers, count, type, Access::read),
        detail::argument(backend, at, count, type, Access::read),
        detail::argument(backend, to, static_cast<std::uint64_t>(out.count()), type, Access::write,
                         true)};
    const std::uint32_t words[] = {word(count), word(k), word(depth)};
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = linear_groups(backend, kernel, count)});
  };
  detail::run_op({.op = Operation::Scatter,
                  .kernel = key_of("top_k_put_back", type),
                  .size = count,
                  .work = {.operations = 0,
                           .bytes_read = 2 * count * size_of(type),
                           .bytes_written = static_cast<std::uint64_t>(out.count()) * size_of(type),
                           .pattern = runtime::hybrid::MemoryPattern::scatter},
                  .inputs = {numbers.storage, at.storage},
                  .outputs = {to.storage},
                  .on_cpu = [&] { type == Type::f64 ? on_cpu(double{}) : on_cpu(float{}); },
                  .on_device = on_device,
                  .needs_float64 = type == Type::f64},
                 from.placed());
  return out;
}

}  // namespace

TopK top_k(const Tensor& a, std::int64_t k) {
  checked_axis("top_k", detail::state_of("top_k", a).shape, -1);
  const Tensor wide = a.type() == Type::f16 ? a.to(Type::f32) : a;
  const std::int64_t depth = a.size(-1);
  if (k <= 0 || k > depth) {
    throw Error(ErrorCode::InvalidArgument,
                "top_k: expected 0 < k <= " + std::to_string(depth) + ", got " + std::to_string(k));
  }
  detail::check_index_range("top_k", wide.type(), depth);
  const auto derive = [&](const TopK& out) {
    detail::record(out.values, {&wide, 1},
                   [taken = out.indices, full = a.shape()](const Tensor& g) {
                     return std::vector{put_back(g, taken, full)};
                   });
  };
  if (is_sorted_rather(wide, k) && a.count() > 0) {
    TopK out = no_grad([&] { return detail::sorted_top_k(wide, k); });
    derive(out);
    return out;
  }
  Shape shape = a.shape();
  shape.back() = k;
  TopK out{detail::make_tensor(shape, wide.type(), a.placed()),
           detail::make_tensor(shape, wide.type(), a.placed())};
  const Selection s{detail::contiguous_data(wide),
                    out.values.state()->data,
                    out.indices.state()->data,
                    wide.type(),
                    static_cast<std::uint64_t>(a.count() / depth),
                    static_cast<std::uint64_t>(depth),
                    static_cast<std::uint64_t>(k)};
  if (s.rows == 0) return out;
  detail::run_op(
      {.op = Operation::TopK,
       .kernel = key_of("top_k", s.type),
       .size = s.rows * s.depth,
       .work = selection_work(s),
       .inputs = {s.source.storage},
       .outputs = {s.values.storage, s.indices.storage},
       .on_cpu = [&] { s.type == Type::f64 ? select_on_cpu<double>(s) : select_on_cpu<float>(s); },
       .on_device = [&](OpBackend& backend) { select_on_device(backend, s); },
       .needs_float64 = s.type == Type::f64},
      a.placed());
  derive(out);
  return out;
}

}  // namespace topograd::ops
