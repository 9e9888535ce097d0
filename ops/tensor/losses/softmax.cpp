// Softmax and layer normalisation of rows.
#include "../operations.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/text.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../backend/kernel_store.hpp"
#include "../state.hpp"
#include "softmax_source.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace topograd::ops {
namespace {

using detail::RowKernel;
using detail::RowOp;
using detail::View;

struct Rows {
  RowOp op;
  Type type;
  std::uint64_t rows, depth;
  View source, scale, shift, target;
  double epsilon;
};

template <class T>
void softmax_row(const T* from, T* to, std::size_t n, bool logarithm) {
  double best = -std::numeric_limits<double>::infinity(), total = 0;
  for (std::size_t k = 0; k < n; ++k)
    if (std::isnan(from[k]) || from[k] > best) best = static_cast<double>(from[k]);
  for (std::size_t k = 0; k < n; ++k) total += std::exp(static_cast<double>(from[k]) - best);
  const double rest = std::log(total);
  for (std::size_t k = 0; k < n; ++k) {
    const double x = static_cast<double>(from[k]) - best;
    to[k] = static_cast<T>(logarithm ? x - rest : std::exp(x) / total);
  }
}

template <class T>
void norm_row(const T* from, const T* scale, const T* shift, T* to, std::size_t n, double epsilon) {
  double total = 0, squares = 0;
  for (std::size_t k = 0; k < n; ++k) total += static_cast<double>(from[k]);
  const double mean = total / static_cast<double>(n);
  for (std::size_t k = 0; k < n; ++k) {
    const double x = static_cast<double>(from[k]) - mean;
    squares += x * x;
  }
  const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
  for (std::size_t k = 0; k < n; ++k) {
    const double x = (static_cast<double>(from[k]) - mean) * factor;
    to[k] = static_cast<T>(
        scale == nullptr ? x : x * static_cast<double>(scale[k]) + static_cast<double>(shift[k]));
  }
}

template <class T>
void run_on_cpu(const Rows& r) {
  const T* from = detail::host_read<T>(r.source);
  const bool scaled = r.op == RowOp::scaled_layer_norm;
  const T* scale = scaled ? detail::host_read<T>(r.scale) : nullptr;
  const T* shift = scaled ? detail::host_read<T>(r.shift) : nullptr;
  T* to = detail::host_write<T>(r.target);
  runtime::cpu::Pool pool(0);
  const std::size_t grain = std::max<std::uint64_t>(1, 16384 / r.depth);
  pool.for_ranges(r.rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t at = row * r.depth;
      if (r.op == RowOp::softmax || r.op == RowOp::log_softmax) {
        softmax_row(from + at, to + at, r.depth, r.op == RowOp::log_softmax);
      } else {
        norm_row(from + at, scale, shift, to + at, r.depth, r.epsilon);
      }
    }
  });
}

void run_on_device(OpBackend& backend, const Rows& r) {
  const bool wide = r.type == Type::f64;
  const RowKernel kernel = detail::rows_for(
      backend.limits(), r.op, wide ? codegen::Precision::f64 : codegen::Precision::f32, r.depth);
  const bool scaled = r.op == RowOp::scaled_layer_norm;
  std::vector<Argument> arguments = {
      detail::argument(backend, r.source, r.rows * r.depth, r.type, Access::read)};
  if (scaled) {
    arguments.push_back(detail::argument(backend, r.scale, r.depth, r.type, Access::read));
    arguments.push_back(detail::argument(backend, r.shift, r.depth, r.type, Access::read));
  }
  arguments.push_back(detail::argument(backend, r.target, r.rows * r.depth, r.type, Access::write));
  std::vector<std::uint32_t> words = {static_cast<std::uint32_t>(r.rows),
                                      static_cast<std::uint32_t>(r.depth)};
  if (scaled || r.op == RowOp::layer_norm)
    for (const std::uint32_t word : number_words(r.epsilon, wide)) words.push_back(word);
  const std::uint64_t groups = kernel.by_workgroup ? r.rows : (r.rows + 255) / 256;
  const std::uint64_t most = std::min(backend.limits().groups, 1u << 16);
  const std::uint64_t rounds = (groups + most - 1) / most;
  if (rounds * (3 * (r.depth / 256 + 1) + 20 + 2 * kernel.subgroups) >
      backend.limits().loop_iterations) {
    throw Error(ErrorCode::Unsupported,
                "softmax: expected shorter rows for the loops of this device, got " +
                    std::to_string(r.depth));
  }
  const ComputeKernel& text = kernel_for(kernel.key(), [&] { return detail::row_kernel(kernel); });
  backend.launch({.kernel = &text,
                  .arguments = arguments,
                  .words = words,
                  .groups = {static_cast<std::uint32_t>(std::min(groups, most))}});
}

/// Three passes over each row: two combine its numbers, one writes.
Work work_of(const Rows& r) {
  const std::uint64_t count = r.rows * r.depth, number = size_of(r.type);
  // Softmax: maximum, difference, exponential, sum; difference or quotient of the result. Norm:
  // sum, difference, square, sum; difference and product of the result, and its scale and shift.
  const bool scaled = r.op == RowOp::scaled_layer_norm;
  const bool softmax = r.op == RowOp::softmax || r.op == RowOp::log_softmax;
  const std::uint64_t operations = softmax ? (r.op == RowOp::softmax ? 7 : 6) : (scaled ? 8 : 6);
  const std::uint64_t own = (scaled ? 2 * r.depth : 0) * number;
  return {.operations = operations * count,
          .bytes_read = count * number + own,
          .bytes_written = count * number,
          .reads = static_cast<double>((3 * count + (scaled ? 2 * count : 0)) * number),
          .steps = 1 + 2 * runtime::hybrid::tree_steps(static_cast<double>(r.depth)),
          .pattern = runtime::hybrid::MemoryPattern::reduction};
}

/// Runs one kernel over the rows of the last axis.
Tensor run_rows(const char* call_name, RowOp op, const Tensor& a, const Tensor& scale,
                const Tensor& shift, double epsilon) {
  detail::state_of(call_name, a);
  if (!(epsilon >= 0) || std::isinf(epsilon)) {
    throw Error(ErrorCode::InvalidArgument, std::string(call_name) +
                                                ": expected a finite epsilon >= 0, got " +
                                                ir::print_number(epsilon));
  }
  if (a.rank() == 0) checked_axis(call_name, a.shape(), -1);
  const Tensor wide = a.type() == Type::f16 ? a.to(Type::f32) : a;
  Tensor out = detail::make_tensor(a.shape(), wide.type(), a.placed());
  const auto depth = static_cast<std::uint64_t>(a.size(-1));
  if (a.count() == 0) return out;
  Rows r{op,
         wide.type(),
         static_cast<std::uint64_t>(a.count()) / depth,
         depth,
         detail::contiguous_data(wide),
         {},
         {},
         out.state()->data,
         epsilon};
  std::vector<std::shared_ptr<Storage>> inputs = {r.source.storage};
  if (op == RowOp::scaled_layer_norm) {
    r.scale = detail::contiguous_data(scale);
    r.shift = detail::contiguous_data(shift);
    inputs.push_back(r.scale.storage);
    inputs.push_back(r.shift.storage);
  }
  const bool softmax = op == RowOp::softmax || op == RowOp::log_softmax;
  detail::run_op(
      {.op = softmax ? Operation::Softmax : Operation::LayerNorm,
       .kernel = key_of("rows", op, r.type),
       .size = static_cast<std::uint64_t>(a.count()),
       .work = work_of(r),
       .inputs = std::move(inputs),
       .outputs = {r.target.storage},
       .on_cpu = [&] { r.type == Type::f64 ? run_on_cpu<double>(r) : run_on_cpu<float>(r); },
       .on_device = [&](OpBackend& backend) { run_on_device(backend, r); },
       .needs_float64 = r.type == Type::f64},
      a.placed());
  return out;
}

Tensor along_last(const char* call, const Tensor& a, std::int64_t axis, RowOp op) {
  detail::state_of(call, a);
  const auto at = static_cast<std::int64_t>(checked_axis(call, a.shape(), axis));
  const auto last = static_cast<std::int64_t>(a.rank()) - 1;
  if (at != last) return along_last(call, a.transpose(at, last), -1, op).transpose(at, last);
  Tensor out = run_rows(call, op, a, {}, {}, 0);
  if (!detail::wants_grad({&a, 1})) return out;
  const Tensor y = out.detach();
  detail::record(out, {&a, 1}, [y, op](const Tensor& g) {
    if (op == RowOp::softmax) return std::vector{y * (g - sum(g * y, {-1}, true))};
    return std::vector{g - exp(y) * sum(g, {-1}, true)};
  });
  return out;
}

}  // namespace

Tensor softmax(const Tensor& a, std::int64_t axis) {
  return along_last("softmax", a, axis, RowOp::softmax);
}

Tensor log_softmax(const Tensor& a, std::int64_t axis) {
  return along_last("log_softmax", a, axis, RowOp::log_softmax);
}

namespace {

/// Derivative of the normalised rows by the rows.
Tensor pull_norm(const Tensor& x, const Tensor& g, double epsilon) {
  const Tensor centred = (x - mean(x, {-1}, true)).evaluate();
  const Tensor factor = rsqrt(mean(square(centred), {-1}, true) + epsilon).evaluate();
  const Tensor normal = centred * factor;
  return factor * (g - mean(g, {-1}, true) - normal * mean(g * normal, {-1}, true));
}

}  // namespace

Tensor layer_norm(const Tensor& a, double epsilon) {
  Tensor out = run_rows("layer_norm", RowOp::layer_norm, a, {}, {}, epsilon);
  if (!detail::wants_grad({&a, 1})) return out;
  detail::record(out, {&a, 1}, [x = a.detach(), epsilon](const Tensor& g) {
    return std::vector{pull_norm(x, g, epsilon)};
  });
  return out;
}

Tensor layer_norm(const Tensor& a, const Tensor& scale, const Tensor& shift, double epsilon) {
  const Tensor all[] = {a, scale, shift};
  detail::common_type("layer_norm", all);
  detail::common_device("layer_norm", all);
  const Shape row = a.rank() > 0 ? Shape{a.size(-1)} : Shape{};
  if (scale.shape() != row || shift.shape() != row) {
    throw Error(ErrorCode::Shape, "layer_norm: expected scale and shift of " + to_text(row) +
                                      ", got " + to_text(scale.shape()) + " and " +
                                      to_text(shift.shape()));
  }
  Tensor out = run_rows("layer_norm", RowOp::scaled_layer_norm, a, scale, shift, epsilon);
  if (!detail::wants_grad(all)) return out;
  detail::record(out, all, [x = a.detach(), s = scale.detach(), epsilon](const Tensor& g) {
    const Tensor normal = layer_norm(x, epsilon);
    return std::vector{pull_norm(x, g * s, epsilon), detail::sum_to(g * normal, s.shape()),
                       detail::sum_to(g, s.shape())};
  });
  return out;
}

}  // namespace topograd::ops
