// Branches on Values: evaluates their conditions while expressions are traced.
#pragma once

#include "../value/tape.hpp"
#include "map_elements.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace topograd::detail {

struct ProblemState;

/// A point at which a problem's unknowns are read.
struct Point {
  std::span<const double> x = {};  ///< empty: the user's parameters
  bool narrow = false;             ///< computes as float does
};

/// The numbers that the symbolic leaves of a map's callable stand for in one element.
struct ElementNumbers {
  std::span<const AddressForm> forms;
  std::span<const std::uint32_t> indices;
  std::span<const double> data;

  /// The block that a form selects, and whether it is within the array.
  bool in_range(const AddressForm& form) const {
    const std::int64_t block = form.block(indices[form.column]);
    return block >= 0 && block < std::int64_t{form.blocks};
  }
  std::uint32_t entry(const AddressForm& form) const { return form.entry(indices[form.column]); }
};

/// The number of a leaf of `state`'s problem; empty if the leaf belongs to another problem or to
/// eager mode, is symbolic without an element, or is outside of its array's range.
std::optional<double> leaf_number(const TapeNode& leaf, const ProblemState& state,
                                  const Point& point, const ElementNumbers* element);

/// Decides the branches of this thread while a callable runs. Scopes nest.
class BranchScope {
 public:
  /// The element with which a map's callable is being traced; the trace adds to its forms.
  struct Element {
    const MapTrace* trace;
    std::span<const std::uint32_t> indices;
    std::span<const double> data;
  };

  /// `script` answers the first branches, the numbers at `point` answer the others. Stores
  /// references to all arguments.
  BranchScope(const ProblemState& state, const Point& point, const Element* element,
              std::span<const bool> script = {});
  ~BranchScope();
  BranchScope(const BranchScope&) = delete;
  BranchScope& operator=(const BranchScope&) = delete;

  const ProblemState& state() const { return state_; }
  const Point& point() const { return point_; }
  const Element* element() const { return element_; }
  /// The next answer of the script, if any is left.
  std::optional<bool> scripted();

 private:
  const ProblemState& state_;
  const Point& point_;
  const Element* element_;
  std::span<const bool> script_;
  BranchScope* outer_;
};

/// Registers a problem by its serial, so that branches on its Values find its numbers.
void enter_problem(const ProblemState& state);
void leave_problem(const ProblemState& state);
/// The problem with this serial; null if it does not exist any more.
const ProblemState* problem_of(std::uint32_t serial);

/// Evaluates one op in double, or rounded as float does.
double apply_op(ir::Op op, const double operands[3], bool narrow);

}  // namespace topograd::detail
