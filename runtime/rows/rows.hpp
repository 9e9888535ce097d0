// Evaluation of a program over rows of numbers on one backend, for tests and debug variants.
#pragma once

#include "../../codegen/kernel.hpp"
#include "../../ir/program.hpp"
#include "../backend.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime {

using codegen::Precision;

/// A table of numbers by column.
using Columns = std::vector<std::vector<double>>;

/// Leaf values in each row, by slot of each leaf space. Unused spaces may be empty.
struct Rows {
  std::size_t count = 0;
  Columns parameters, data, uniforms, tangents, seeds;
};

/// Where a program's leaves are in each row; what no node reads may be empty.
struct RowIndices {
  std::size_t count = 0;
  /// Positions in x and in the direction, by slot, then by row.
  std::vector<std::vector<std::uint32_t>> parameters;
  std::vector<std::vector<std::uint32_t>> uniforms;  ///< positions in the uniforms
  Columns data;
};

/// The numbers at these indices.
struct RowNumbers {
  std::span<const double> x, direction, uniforms;
  std::vector<std::span<const double>> seeds;  ///< by row of the program, then by row
};

/// A program that stays on a device with its indices and data.
class RowKernel {
 public:
  virtual ~RowKernel() = default;
  /// Returns the outputs by column. Throws the errors of the device.
  virtual Columns run(const RowNumbers& numbers) = 0;
};

/// Evaluates programs as the kernels of a backend do, without optimising them.
class RowRunner {
 public:
  virtual ~RowRunner() = default;
  virtual Backend backend() const = 0;
  virtual std::string device() const = 0;
  virtual Precision precision() const = 0;
  /// Returns the outputs of the program by column; inputs are rounded to the precision.
  ///
  /// Throws Error{Shape} if a column that the program reads is missing or shorter than `count`, and
  /// the errors of the device.
  virtual Columns run(const ir::Program& program, const Rows& rows) = 0;
  /// Prepares a program for many runs at the same indices; the runner outlives the kernel. Throws
  /// Error{Unsupported} unless the runner is that of a device.
  virtual std::unique_ptr<RowKernel> prepare(const ir::Program& program, RowIndices indices);
};

/// Throws Error{Unsupported} if + − × ÷ √, alone and one after the other, differ in a bit from the
/// host's on some thousand numbers of all sizes.
void require_same_rounding(RowRunner& runner);

/// Throws Error{Shape} if `rows` lacks a column that the program's leaves may read.
void check_rows(const ir::Program& program, const Rows& rows);

/// The debug variant of a program: all nodes are outputs, in node order, guards are left out.
ir::Program all_nodes(const ir::Program& program);

}  // namespace topograd::runtime
