// ArraySweep: values and derivatives of an array graph, operation by operation on whole arrays.
#pragma once

#include "../../autodiff/node_sweep.hpp"
#include "array_graph.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace topograd::python {

/// For each element of a node: whether it reads an unknown or a number of a data array.
std::vector<std::uint8_t> reading_elements(const ArrayGraph& graph, NodeId root);

/// Elements of a node of an array graph, with forward derivatives. An array is computed whole if an
/// element of it is needed; arrays that are live at different times share memory.
///
/// Values and derivatives have the bits of autodiff::NodeSweep for the same operations on numbers.
class ArraySweep {
 public:
  using Workspace = autodiff::NodeSweep::Workspace;
  using Column = autodiff::NodeSweep::Column;

  /// Nothing if an operation is written with others (composite ones, powers with an exponent of the
  /// text), or if arrays are too small or too little of them is needed for it to pay.
  ///
  ///   rows  elements of the root, at least one
  ///
  /// Cost: linear in elements, some nanoseconds each.
  static std::optional<ArraySweep> make(const ArrayGraph& graph, NodeId root,
                                        std::span<const Index> rows);

  std::size_t rows() const { return rows_.size(); }
  /// Unknowns that are needed, ascending: the slots of inputs and columns.
  std::span<const std::uint32_t> parameters() const { return parameters_; }
  std::size_t array_operations() const { return array_operations_; }
  std::size_t operations() const { return operations_; }
  std::uint64_t hash() const { return hash_; }
  std::size_t bytes() const;
  std::size_t work_bytes() const;

  ///   in  parameters by slot; data: leaves kFirstDatum + k read number k
  void evaluate(const ir::Inputs<double>& in, std::span<double> out, Workspace& work) const;
  /// False where the derivative of a root at 0 is asked for, which depends on what it is a root of.
  bool linearize(const ir::Inputs<double>& in, std::span<double> out,
                 std::span<const Column> columns, Workspace& work) const;

 private:
  class Maker;
  class Run;

  enum class Kind : std::uint8_t { unknowns, data, copy, apply, reduce, products, scan };

  /// Elements of an array in the order of a view.
  struct Read {
    std::uint32_t first = 0;  ///< offset of the array
    std::uint32_t size = 0;   ///< of the array: distance of the columns of its tangents
    bool constant = false;    ///< its numbers are in constants_
    bool moves = false;       ///< it has tangents
    Layout layout;            ///< simplified
  };
  /// Elements that follow one another in an operand: copied to elements from `to` on.
  struct Piece {
    std::uint32_t operand = 0, from = 0, to = 0, count = 0;
  };
  /// Sums of products that follow one another, with the positions of their factors.
  struct Sums {
    std::uint32_t from = 0, count = 0;
    std::array<std::int64_t, 2> offset{}, group{}, term{};
  };
  struct Instruction {
    Kind kind = Kind::apply;
    ir::Op op = ir::Op::Literal;
    bool moves = false;
    std::uint32_t size = 0, position = 0;  ///< of the result
    /// reduce, products: as Node::extent; scan: elements of one step
    std::uint32_t extent = 1;
    std::uint32_t first_read = 0;
    /// copy: piece; unknowns: of slots_; data: number of an element; products: run
    std::uint32_t first = 0;
    std::uint32_t pieces = 0;  ///< copy: pieces; products: runs
  };

  std::vector<Instruction> instructions_;  // one more at the end
  std::vector<Read> reads_;
  std::vector<Piece> pieces_;
  std::vector<Sums> sums_;
  std::vector<std::uint32_t> slots_;  // of elements of unknowns; kNoSlot: not needed
  std::vector<double> constants_;
  std::vector<std::uint32_t> parameters_;
  std::vector<Index> rows_;
  Read root_;
  std::uint32_t numbers_ = 0;  // of all arrays that are live at once
  std::uint32_t longest_ = 0;  // numbers of an array, or of what a reduction reads
  std::size_t array_operations_ = 0, operations_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace topograd::python
