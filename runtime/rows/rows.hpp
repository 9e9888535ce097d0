// Running one program over rows of numbers on one backend: for tests of kernels and for a look
// inside.
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

/// What the leaves of a program read in each row, by slot of each leaf space. Spaces that the
/// program does not read may be empty.
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
  /// Outputs of the program by column; numbers are rounded to the precision when they are read.
  ///
  /// Throws Error{Shape} if a column that the program reads is missing or shorter than `count`, and
  /// what a device throws.
  virtual Columns run(const ir::Program& program, const Rows& rows) = 0;
};

/// Throws Error{Shape} if `rows` lacks a column that the program's leaves may read.
void check_rows(const ir::Program& program, const Rows& rows);

/// The program with all of its nodes for outputs, in node order, guards left out: its debug
/// variant.
ir::Program all_nodes(const ir::Program& program);

}  // namespace topograd::runtime
