// Products of matrices: layouts of the operands, Eigen on the CPU, tiles on devices.
#include "../operations.hpp"

#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../backend/kernel_store.hpp"
#include "../state.hpp"
#include "matmul_source.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <optional>

namespace topograd::ops {
namespace {

using detail::MatmulKernel;
using detail::MatmulStorage;
using detail::MatrixUnitsKernel;
using detail::state_of;
using detail::View;

/// An operand in memory: lines of consecutive elements, `step` apart.
struct ProductOperand {
  View view;
  Type type = Type::f32;
  bool transposed = false;  ///< lines are columns
  std::int64_t step = 0;
  std::int64_t batch = 0;  ///< elements between matrices

  std::uint64_t extent(std::int64_t rows, std::int64_t columns, std::int64_t batches) const {
    const std::int64_t lines = transposed ? columns : rows, length = transposed ? rows : columns;
    return static_cast<std::uint64_t>((batches - 1) * batch + (lines - 1) * step + length);
  }
};

struct Product {
  std::int64_t batches = 1, rows = 0, columns = 0, depth = 0;
  ProductOperand a, b;
  View c;
  Type type = Type::f32;  ///< type of C
};

[[noreturn]] void refuse(const char* expected, const Tensor& a, const Tensor& b) {
  throw Error(ErrorCode::Shape, std::string("matmul: expected ") + expected + ", got " +
                                    to_text(a.shape()) + " and " + to_text(b.shape()));
}

bool begins_within_word(const ProductOperand& operand) {
  return operand.type == Type::f16 && operand.view.offset % 2 != 0;
}

/// Finds the layout of a matrix with contiguous lines; returns false if it has none.
bool find_lines(const Shape& shape, ProductOperand& operand) {
  const Strides& strides = operand.view.strides;
  const std::size_t n = shape.size();
  const std::int64_t rows = shape[n - 2], columns = shape[n - 1];
  const std::int64_t row_step = strides[n - 2], column_step = strides[n - 1];
  if (begins_within_word(operand)) return false;
  if ((column_step == 1 || columns == 1) && (row_step >= columns || rows == 1)) {
    operand.transposed = false;
    operand.step = rows == 1 ? columns : row_step;
    return true;
  }
  if ((row_step == 1 || rows == 1) && (column_step >= rows || columns == 1)) {
    operand.transposed = true;
    operand.step = columns == 1 ? rows : column_step;
    return true;
  }
  return false;
}

/// An operand with uniformly spaced batches; copied if they are not.
ProductOperand operand_of(const Tensor& tensor, const Shape& batch) {
  Shape full = batch;
  full.insert(full.end(), tensor.shape().end() - 2, tensor.shape().end());
  ProductOperand out{detail::data_of(tensor), tensor.type()};
  out.view.strides = broadcast_strides("matmul", tensor.shape(), out.view.strides, full);
  const Strides outer(out.view.strides.begin(), out.view.strides.end() - 2);
  const LoopNest nest = loop_nest(batch, {&outer, 1});
  if (nest.shape.size() > 1 || !find_lines(full, out)) {
    Tensor repeated = tensor.detach().broadcast_to(full);
    out.view = detail::contiguous_data(repeated);
    // The layout is suitable except for the half of a word in which it begins.
    if (begins_within_word(out)) {
      repeated = repeated.to(Type::f32).to(Type::f16);
      out.view = detail::contiguous_data(repeated);
    }
    out.view.strides = contiguous_strides(full);
    find_lines(full, out);
    out.batch = full[full.size() - 2] * full[full.size() - 1];
    return out;
  }
  out.batch = nest.shape.empty() ? 0 : nest.strides[0][0];
  return out;
}

template <class T>
using Lines = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                         Eigen::OuterStride<>>;

template <class T>
void multiply_rows(const Product& p, const T* a, const T* b, T* c, std::int64_t begin,
                   std::int64_t end) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix> out(c + begin * p.columns, end - begin, p.columns);
  const Lines<T> right(b, p.b.transposed ? p.columns : p.depth,
                       p.b.transposed ? p.depth : p.columns, Eigen::OuterStride<>(p.b.step));
  const auto with_left = [&](const auto& left) {
    if (p.b.transposed) {
      out.noalias() = left * right.transpose();
    } else {
      out.noalias() = left * right;
    }
  };
  if (p.a.transposed) {
    const Lines<T> left(a + begin, p.depth, end - begin, Eigen::OuterStride<>(p.a.step));
    with_left(left.transpose());
  } else {
    const Lines<T> left(a + begin * p.a.step, end - begin, p.depth, Eigen::OuterStride<>(p.a.step));
    with_left(left);
  }
}

template <class T>
void multiply_on_cpu(const Product& p) {
  const T* a = detail::host_read<T>(p.a.view);
  const T* b = detail::host_read<T>(p.b.view);
  T* c = detail::host_write<T>(p.c);
  // Blocks of rows, large enough for a task; the same ones on every machine.
  const auto work = static_cast<double>(p.columns) * static_cast<double>(p.depth);
  const auto least = static_cast<std::int64_t>(std::ceil(100'000 / std::max(work, 1.0)));
  const std::int64_t block = std::min(p.rows, std::max<std::int64_t>(64, least));
  const std::int64_t blocks = (p.rows + block - 1) / block;
  runtime::cpu::Pool pool(0);
  pool.for_ranges(static_cast<std::size_t>(p.batches * blocks), 1, [&](std::size_t k, std::size_t) {
    const auto batch = static_cast<std::int64_t>(k) / blocks;
    const std::int64_t begin = static_cast<std::int64_t>(k) % blocks * block;
    multiply_rows<T>(p, a + batch * p.a.batch, b + batch * p.b.batch,
                     c + batch * p.rows * p.columns, begin, std::min(p.rows, begin + block));
  });
}

thread_local detail::MatmulTiles forced_tiles = detail::MatmulTiles::chosen;

/// True if tiles would be mostly empty: few rows or columns, and few terms, whose lines stay in a
/// cache. On software devices, neither tiles with empty parts nor adjacent reads of neighbours are
/// an advantage.
bool is_thin(const Product& p, const LaunchLimits& limits) {
  if (forced_tiles != detail::MatmulTiles::chosen) return false;
  const std::int64_t thin = std::min(p.rows, p.columns);
  return limits.software ? thin <= 8 : thin <= 4 && p.depth <= 16;
}

/// Workgroups of a thin product, and their loop iterations.
struct ThinLoop {
  std::uint64_t groups, turns;
};

ThinLoop thin_loop(const Product& p, const LaunchLimits& limits) {
  const auto count = static_cast<std::uint64_t>(p.rows * p.columns);
  const std::uint64_t all = (count + MatmulKernel::kThinGroup - 1) / MatmulKernel::kThinGroup;
  const std::uint64_t groups = std::min<std::uint64_t>(all, std::min(limits.groups, 1u << 16));
  return {groups, (all + groups - 1) / groups * (static_cast<std::uint64_t>(p.depth) + 2)};
}

MatmulKernel tiles_for(const Product& p, const LaunchLimits& limits) {
  MatmulKernel kernel{.a_transposed = p.a.transposed, .b_transposed = p.b.transposed};
  if (p.type == Type::f64) kernel.storage = MatmulStorage::f64;
  if (p.a.type == Type::f16) kernel.storage = MatmulStorage::f16;
  if (is_thin(p, limits) && thin_loop(p, limits).turns <= limits.loop_iterations) {
    kernel.thin = true;
    return kernel;
  }
  // Large tiles if there are enough of them to occupy a device.
  const std::int64_t tiles = ((p.rows + 127) / 128) * ((p.columns + 127) / 128) * p.batches;
  MatmulKernel large = kernel;
  large.quarters = 2;
  bool wanted = tiles >= 128 && !limits.software;
  if (forced_tiles != detail::MatmulTiles::chosen)
    wanted = forced_tiles == detail::MatmulTiles::large;
  const bool fits =
      kernel.storage != MatmulStorage::f64 && large.shared_bytes() <= limits.shared_bytes;
  return wanted && fits ? large : kernel;
}

/// True if an operand can be read in vectors of eight numbers: its lines begin at multiples of
/// eight and, if they do not follow the depth, have such lengths.
bool in_eights(const ProductOperand& o, bool deep_lines, std::int64_t length,
               std::int64_t batches) {
  return o.view.offset % 8 == 0 && o.step % 8 == 0 && (batches == 1 || o.batch % 8 == 0) &&
         (deep_lines || length % 8 == 0);
}

/// The kernel with cooperative matrices, for large f16 products with suitable layouts.
std::optional<MatrixUnitsKernel> units_for(const Product& p, const LaunchLimits& limits) {
  MatrixUnitsKernel kernel{.a_transposed = p.a.transposed, .b_transposed = p.b.transposed};
  const bool there = limits.cooperative_matrix &&
                     limits.subgroup_size == MatrixUnitsKernel::kSubgroup &&
                     kernel.shared_bytes() <= limits.shared_bytes;
  if (!there || p.a.type != Type::f16 || p.depth % 8 != 0 || p.rows < 64 || p.columns < 64 ||
      !in_eights(p.a, !p.a.transposed, p.rows, p.batches) ||
      !in_eights(p.b, p.b.transposed, p.columns, p.batches))
    return std::nullopt;
  kernel.whole =
      p.rows % kernel.rows == 0 && p.columns % kernel.columns == 0 && p.depth % kernel.depth == 0;
  return kernel;
}

/// Parameters of a launch of either kernel.
struct Plan {
  const ComputeKernel* text = nullptr;
  std::int64_t rows = 0, columns = 0;  ///< part of C per workgroup
  std::int64_t vector = 1;             ///< numbers per element of A and B
  std::uint64_t groups = 0;            ///< in x, unless divided by tiles
};

Plan plan_for(const Product& p, const LaunchLimits& limits, const std::string& device) {
  if (const std::optional<MatrixUnitsKernel> units = units_for(p, limits)) {
    return {.text = &kernel_for(units->name(), [&] { return detail::matrix_units_kernel(*units); }),
            .rows = units->rows,
            .columns = units->columns,
            .vector = 8};
  }
  const MatmulKernel kernel = tiles_for(p, limits);
  const auto text = [&] {
    return &kernel_for(kernel.name(), [&] { return detail::matmul_kernel(kernel); });
  };
  if (kernel.thin && limits.local_size >= MatmulKernel::kThinGroup)
    return {.text = text(), .groups = thin_loop(p, limits).groups};
  if (static_cast<std::uint64_t>(p.depth) + 64 > limits.loop_iterations ||
      kernel.shared_bytes() > limits.shared_bytes || limits.local_size < 256) {
    throw Error(ErrorCode::Unsupported,
                "matmul: expected a smaller depth or larger workgroups on " + device +
                    ", got a depth of " + std::to_string(p.depth));
  }
  return {.text = text(), .rows = kernel.tile(), .columns = kernel.tile()};
}

Argument operand_argument(OpBackend& backend, const ProductOperand& o, const View& view,
                          std::uint64_t extent, std::int64_t vector) {
  Argument out = detail::argument(backend, view, extent, o.type, Access::read);
  if (vector > 1) out.element = 16;
  return out;
}

thread_local std::int64_t forced_groups = 0;

/// The maximum number of workgroups along an axis, rounded to an even number, so that matrices and
/// bands of f16 begin and end at words.
std::int64_t most_groups(const OpBackend& backend) {
  return (forced_groups > 0 ? forced_groups : backend.limits().groups) / 2 * 2;
}

/// Launches all rows at once.
///
///   keep  C has been written in part
void launch(OpBackend& backend, const Plan& plan, const Product& p, bool keep) {
  const std::int64_t most = most_groups(backend);
  for (std::int64_t first = 0; first < p.batches; first += most) {
    const std::int64_t batches = std::min(most, p.batches - first);
    View a = p.a.view, b = p.b.view, c = p.c;
    a.offset += first * p.a.batch;
    b.offset += first * p.b.batch;
    c.offset += first * p.rows * p.columns;
    const Argument arguments[] = {
        operand_argument(backend, p.a, a, p.a.extent(p.rows, p.depth, batches), plan.vector),
        operand_argument(backend, p.b, b, p.b.extent(p.depth, p.columns, batches), plan.vector),
        detail::argument(backend, c, static_cast<std::uint64_t>(batches * p.rows * p.columns),
                         p.type, Access::write, keep || first > 0)};
    const auto word = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
    const auto vectors = [&](std::int64_t value) { return word(value / plan.vector); };
    const std::uint32_t words[] = {word(p.rows),       word(p.columns),         word(p.depth),
                                   vectors(p.a.step),  vectors(p.a.batch),      vectors(p.b.step),
                                   vectors(p.b.batch), word(p.rows * p.columns)};
    const auto tiles = [&](std::int64_t size, std::int64_t tile) {
      return word((size + tile - 1) / tile);
    };
    const LaunchGroups groups =
        plan.groups > 0
            ? LaunchGroups{static_cast<std::uint32_t>(plan.groups), 1, word(batches)}
            : LaunchGroups{tiles(p.columns, plan.columns), tiles(p.rows, plan.rows), word(batches)};
    backend.launch({.kernel = plan.text, .arguments = arguments, .words = words, .groups = groups});
  }
}

void multiply_on_device(OpBackend& backend, const Product& p) {
  const Plan plan = plan_for(p, backend.limits(), backend.facts().name);
  const std::int64_t most = most_groups(backend) * plan.rows;
  if (plan.groups > 0 || p.rows <= most) return launch(backend, plan, p, false);
  Product band = p;
  band.batches = 1;
  for (std::int64_t batch = 0; batch < p.batches; ++batch) {
    for (std::int64_t row = 0; row < p.rows; row += most) {
      band.rows = std::min(most, p.rows - row);
      band.a.view.offset =
          p.a.view.offset + batch * p.a.batch + row * (p.a.transposed ? 1 : p.a.step);
      band.b.view.offset = p.b.view.offset + batch * p.b.batch;
      band.c.offset = p.c.offset + (batch * p.rows + row) * p.columns;
      launch(backend, plan, band, batch + row > 0);
    }
  }
}

double products_of(const Product& p) {
  return static_cast<double>(p.batches) * static_cast<double>(p.rows) *
         static_cast<double>(p.columns) * static_cast<double>(p.depth);
}

Work work_of(const Product& p) {
  const auto bytes = [&](const ProductOperand& operand, std::int64_t rows, std::int64_t columns) {
    const std::int64_t matrices = operand.batch == 0 ? 1 : p.batches;
    return static_cast<double>(matrices * rows * columns) *
           static_cast<double>(size_of(operand.type));
  };
  const double result = static_cast<double>(p.batches * p.rows * p.columns);
  return {.operations = 2 * products_of(p),
          .bytes_read = bytes(p.a, p.rows, p.depth) + bytes(p.b, p.depth, p.columns),
          .bytes_written = result * static_cast<double>(size_of(p.type)),
          .reads = products_of(p) * static_cast<double>(size_of(p.a.type) + size_of(p.b.type)),
          .steps = runtime::hybrid::tree_steps(static_cast<double>(p.depth))};
}

void run_product(const Product& p, const std::optional<Device>& device) {
  const bool thin = std::min(p.rows, p.columns) <= 8;
  detail::run_op(
      {.op = Operation::Matmul,
       .kernel = key_of("matmul", p.a.type, thin, p.a.transposed, p.b.transposed),
       .size = static_cast<std::uint64_t>(std::cbrt(products_of(p))),
       .work = work_of(p),
       .inputs = {p.a.view.storage, p.b.view.storage},
       .outputs = {p.c.storage},
       .on_cpu =
           [&] { p.type == Type::f64 ? multiply_on_cpu<double>(p) : multiply_on_cpu<float>(p); },
       .on_device = [&](OpBackend& backend) { multiply_on_device(backend, p); },
       .needs_float64 = p.type == Type::f64},
      device);
}

/// The axes before the last two.
Shape broadcast_batches(const Tensor& a, const Tensor& b) {
  const auto batch = [](const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); };
  const Shape first = batch(a.shape()), second = batch(b.shape());
  for (std::size_t k = 1; k <= std::min(first.size(), second.size()); ++k) {
    const std::int64_t m = first[first.size() - k], n = second[second.size() - k];
    if (m != n && m != 1 && n != 1) refuse("axes before the last two that broadcast", a, b);
  }
  return broadcast("matmul", first, second);
}

}  // namespace

void detail::force_matmul_tiles(MatmulTiles tiles, std::int64_t most_groups) {
  forced_tiles = tiles;
  forced_groups = most_groups;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  const Tensor both[] = {a, b};
  const Type type = detail::common_type("matmul", both);
  const auto device = detail::common_device("matmul", both);
  if (a.rank() < 2 || b.rank() < 2) refuse("two axes at least", a, b);
  if (a.size(-1) != b.size(-2)) refuse("lhs columns == rhs rows", a, b);
  // The CPU multiplies operands in place; on devices one kernel reads both operands in one type.
  const auto runs = detail::runs_on(device);
  const bool on_cpu = !runs || runs->is_cpu();
  if (a.type() != b.type() || (on_cpu && a.type() == Type::f16))
    return matmul(a.to(type), b.to(type));

  const Shape batch = broadcast_batches(a, b);
  Product p{.batches = element_count(batch),
            .rows = a.size(-2),
            .columns = b.size(-1),
            .depth = a.size(-1),
            .type = type};
  Shape shape = batch;
  shape.insert(shape.end(), {p.rows, p.columns});
  check_shape("matmul", shape);
  Tensor out;
  if (p.depth == 0) {
    out = full(shape, 0, type);
  } else {
    out = detail::make_tensor(shape, type, device);
    if (out.count() > 0) {
      p.a = operand_of(a, batch);
      p.b = operand_of(b, batch);
      p.c = out.state()->data;
      if (p.b.batch == 0 && !p.a.transposed && p.a.batch == p.rows * p.a.step) {
        p.rows *= p.batches;  // one tall product
        p.batches = 1;
      }
      run_product(p, device);
    }
  }
  detail::record(out, both,
                 [a = a.detach(), b = b.detach(), has_a = a.has_grad(),
                  has_b = b.has_grad()](const Tensor& g) {
                   std::vector<Tensor> grads(2);
                   if (has_a) grads[0] = detail::sum_to(matmul(g, b.transpose()), a.shape());
                   if (has_b) grads[1] = detail::sum_to(matmul(a.transpose(), g), b.shape());
                   return grads;
                 });
  return out;
}

}  // namespace topograd::ops
