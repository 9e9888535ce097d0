// Evaluation of a program over rows of numbers on one backend, for tests and debug variants.
#pragma once

#include "../../codegen/kernel.hpp"
#include "../../ir/program.hpp"
#include "../backend.hpp"

#include <cstddef>
#include <memory>
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
};

/// Throws Error{Shape} if `rows` lacks a column that the program's leaves may read.
void check_rows(const ir::Program& program, const Rows& rows);

/// The debug variant of a program: all nodes are outputs, in node order, guards are left out.
ir::Program all_nodes(const ir::Program& program);

}  // namespace topograd::runtime
