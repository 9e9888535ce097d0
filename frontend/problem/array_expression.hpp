// Expressions that evaluate themselves, operation by operation on whole arrays.
#pragma once

#include "../../autodiff/node_sweep.hpp"
#include "../../ir/evaluate.hpp"
#include "../value/value.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd::detail {

/// Rows of a program of arrays. What needs the operations on numbers one by one, such as kernels,
/// has them written when it asks.
class ArrayExpression {
 public:
  using Workspace = autodiff::NodeSweep::Workspace;
  using Column = autodiff::NodeSweep::Column;

  virtual ~ArrayExpression() = default;

  virtual std::size_t rows() const = 0;
  /// Scalars of the problem that it reads, ascending: the slots of `in` and of columns.
  virtual std::span<const std::uint32_t> parameters() const = 0;

  /// As those of NodeSweep, forward, with its bits.
  ///
  ///   in  parameters by slot, and all numbers of the problem's data arrays
  virtual void evaluate(const ir::Inputs<double>& in, std::span<double> out,
                        Workspace& work) const = 0;
  /// False, with nothing of use written, where derivatives depend on more than the operations: of a
  /// root at 0.
  virtual bool linearize(const ir::Inputs<double>& in, std::span<double> out,
                         std::span<const Column> columns, Workspace& work) const = 0;

  /// The rows as values of this thread's tape. Cost: linear in operations on numbers.
  virtual std::vector<Value> write() const = 0;

  /// Operations on arrays, and on numbers.
  virtual std::size_t array_operations() const = 0;
  virtual std::size_t operations() const = 0;
  /// Hashes the operations and what they read, without numbers.
  virtual std::uint64_t hash() const = 0;
  virtual std::size_t bytes() const = 0;
  /// Bytes of a Workspace that has derivatives.
  virtual std::size_t work_bytes() const = 0;
};

}  // namespace topograd::detail
