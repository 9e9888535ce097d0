// Branches on Values: the numbers that decide them while expressions are traced.
#pragma once

#include "../value/tape.hpp"
#include "map_trace.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace topograd::detail {

struct ProblemState;

/// Where a problem's unknowns are looked at.
struct Point {
  std::span<const double> x = {};  ///< empty: the user's parameters
  bool narrow = false;             ///< numbers and operations are those of float
};

/// The numbers that the symbolic leaves of a map's callable stand for in one element.
struct ElementNumbers {
  std::span<const AddressForm> forms;
  std::span<const std::uint32_t> indices;
  std::span<const double> data;

  /// The block of its array that a form selects, and whether there is one.
  bool in_range(const AddressForm& form) const {
    const std::int64_t block = form.block(indices[form.column]);
    return block >= 0 && block < std::int64_t{form.blocks};
  }
  std::uint32_t entry(const AddressForm& form) const { return form.entry(indices[form.column]); }
};

/// The number of a leaf of `state`'s problem; none if it has none there: it belongs to another
/// problem or to eager mode, is symbolic without an element, or lies out of its array's range.
std::optional<double> leaf_number(const TapeNode& leaf, const ProblemState& state,
                                  const Point& point, const ElementNumbers* element);

/// What decides the branches of this thread while a callable runs. Scopes nest.
class BranchScope {
 public:
  /// The element that a running map's callable is traced with; its forms grow meanwhile.
  struct Element {
    const MapTrace* trace;
    std::span<const std::uint32_t> indices;
    std::span<const double> data;
  };

  /// `script` answers the first branches, the numbers at `point` the others. All are referred to.
  BranchScope(const ProblemState& state, const Point& point, const Element* element,
              std::span<const bool> script = {});
  ~BranchScope();
  BranchScope(const BranchScope&) = delete;
  BranchScope& operator=(const BranchScope&) = delete;

  const ProblemState& state() const { return state_; }
  const Point& point() const { return point_; }
  const Element* element() const { return element_; }
  /// The next answer of the script, if there is one left.
  std::optional<bool> scripted();

 private:
  const ProblemState& state_;
  const Point& point_;
  const Element* element_;
  std::span<const bool> script_;
  BranchScope* outer_;
};

/// Makes a problem known by its serial, so that branches on its Values find its numbers.
void enter_problem(const ProblemState& state);
void leave_problem(const ProblemState& state);
/// The problem of this serial; null if it does not live.
const ProblemState* problem_of(std::uint32_t serial);

/// One op, in double or as float rounds it.
double apply_op(ir::Op op, const double operands[3], bool narrow);

}  // namespace topograd::detail
