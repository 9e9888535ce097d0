// Values and Jacobians of long programs that repeat themselves, such as the steps of an integrator.
#pragma once

#include "node_sweep.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace topograd::autodiff {

/// Nodes first ... first + period - 1 of a program, which are repeated: repetition k has the same
/// ops, and what its nodes read is moved by k times a fixed distance.
struct RepeatedNodes {
  ir::Id first = 0;
  std::uint32_t period = 0, count = 0;
};

/// The repetitions of a program, ascending; at least four of each.
///
/// Cost: linear in nodes, up to a factor of sixteen.
std::vector<RepeatedNodes> find_repetitions(const ir::Program& f);

/// A program whose repetitions are stored once and evaluated as a loop.
///
/// Values and derivatives have the bits of NodeSweep. What a repetition hands to later ones is kept
/// for all of them, everything else for one. Sweeps backward compute the rest of a repetition again
/// when they reach it: the numbers that are kept are their checkpoints.
///
/// Source: as NodeSweep, and chapter 12.
class RolledSweep {
 public:
  using Workspace = NodeSweep::Workspace;
  using Column = NodeSweep::Column;

  /// The loops of a program in numbers.
  struct Facts {
    std::size_t steps = 0;       ///< repetitions of the loop with the most nodes
    std::size_t states = 0;      ///< numbers that one repetition of it hands to later ones
    std::size_t operations = 0;  ///< of one repetition of it
    std::size_t loops = 0;
  };

  /// Why a program has no loops.
  struct Obstacle {
    double repeated = 0;         ///< share of its nodes that loops would save
    std::size_t given_up = 0;    ///< loops that read what has no fixed distance
    std::size_t most_steps = 0;  ///< of the longest of these
  };

  /// Nothing if repetitions are not most of the program, or if what they read follows no fixed
  /// distance.
  ///
  ///   why  receives the reason if there is nothing; may be null
  ///
  /// Cost: that of find_repetitions().
  static std::optional<RolledSweep> make(const ir::Program& f, Obstacle* why = nullptr);

  std::size_t rows() const { return rows_.size(); }
  std::size_t operations() const { return operations_; }
  const Facts& facts() const { return facts_; }
  /// Facts of each loop alone, in the order of the program.
  std::span<const Facts> loops() const { return all_loops_; }
  std::size_t bytes() const;
  /// Bytes of a Workspace that has derivatives by `parameters` parameters.
  std::size_t workspace_bytes(std::size_t parameters) const;

  /// As those of NodeSweep. linearize() goes forward, sixteen columns at a time.
  void evaluate(const ir::Inputs<double>& in, std::span<double> out, Workspace& work) const;
  void linearize(const ir::Inputs<double>& in, std::span<double> out,
                 std::span<const Column> columns, Workspace& work) const;

  /// As linearize(), by a sweep backward for each row. Each derivative is summed in the descending
  /// order of the nodes that read a number.
  ///
  /// Cost: for each row about twice evaluate(), plus a multiplication and an addition an operand.
  void linearize_backward(const ir::Inputs<double>& in, std::span<double> out,
                          std::span<const Column> columns, Workspace& work) const;
  /// Bytes of its Workspace.
  std::size_t backward_bytes() const;

  /// True if add_curvature() may be called: CurvatureSweep::make() has something for the program.
  bool has_curvature() const;
  /// As CurvatureSweep::add(), with its bits.
  void add_curvature(const ir::Inputs<double>& in, std::span<const double> weights,
                     std::span<const double> p, std::span<double> out, Workspace& work) const;

 private:
  class Layout;

  /// Index of a number in repetition k: first + k step.
  struct AffineIndex {
    std::uint32_t first = 0;
    std::int32_t step = 0;
    std::size_t at(std::uint32_t k) const {
      return static_cast<std::size_t>(std::int64_t{first} + std::int64_t{step} * k);
    }
  };
  struct Item {
    ir::Op op = ir::Op::Literal;
    bool moves = false;         ///< depends on a parameter
    bool guarded_root = false;  ///< a root whose derivative at 0 is 0
    std::uint8_t reads = 0;     ///< bit k: operand k depends on a parameter
    AffineIndex value, tangent;
    AffineIndex operands[3];  ///< of leaves: the slot first; literals are in `number`
    AffineIndex tangents[3];
    double number = 0;
  };
  struct Part {
    std::uint32_t first_item = 0, count = 1;
  };
  struct Row {
    std::uint32_t value = 0, tangent = 0;
    bool moves = false;
  };

  RolledSweep() = default;
  template <std::size_t W>
  void run(const ir::Inputs<double>& in, std::size_t first_column, Workspace& work) const;
  template <std::size_t W>
  static void run_item(const Item& item, std::uint32_t k, double* v, double* tangents);
  template <std::size_t W>
  static void run_leaf(const Item& item, std::uint32_t k, const ir::Inputs<double>& in,
                       std::size_t first_column, Workspace& work);
  template <std::size_t W>
  void write(std::span<const Column> columns, std::size_t first, const Workspace& work) const;
  std::size_t most_items() const;
  template <class Visit>
  void for_repetitions_backward(const Visit& visit) const;
  void run_partials(std::span<const Item> items, std::uint32_t k, const ir::Inputs<double>& in,
                    Workspace& work) const;
  void pull(std::size_t part, std::uint32_t k, Workspace& work, std::span<double> out) const;
  void push_direction(std::span<const Item> items, std::uint32_t k, std::span<const double> p,
                      Workspace& work) const;
  void pull_curvature(std::size_t part, std::uint32_t k, Workspace& work,
                      std::span<double> out) const;

  std::vector<Part> parts_;  // one more at the end
  std::vector<Item> items_;
  std::vector<std::uint32_t> by_node_;  // of each part: its items in the order of nodes
  std::vector<Row> rows_;
  std::vector<std::uint32_t> still_;  // indices of tangents that are 0
  std::uint32_t values_ = 0, tangents_ = 0;
  std::size_t operations_ = 0;
  Facts facts_;
  std::vector<Facts> all_loops_;
};

}  // namespace topograd::autodiff
