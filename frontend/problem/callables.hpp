// Callables of residuals: branches and paths through them, and forms in which they are traced.
#pragma once

#include "../value/tape.hpp"
#include "../value/value.hpp"
#include "extract.hpp"
#include "map_elements.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

/// A branch of a path.
struct PathBranch {
  std::uint32_t condition = 0;  ///< position in the path's nodes
  bool taken = false;
  std::uint64_t at = 0;  ///< number of nodes that the callable had made by then
};

/// The result of a run of a callable: self-contained nodes, with symbolic leaves.
struct TracedPath {
  std::vector<TapeNode> nodes;
  std::vector<std::uint64_t> origins;  ///< for each node: node of the run, or kCaptured + tape node
  std::vector<std::uint32_t> rows;
  std::vector<PathBranch> branches;  ///< the first `outer` were taken before the callable ran
  std::size_t outer = 0;
  std::vector<AddressForm> forms;  ///< by the number that a symbolic leaf holds

  static constexpr std::uint64_t kCaptured = std::uint64_t{1} << 63;

  std::span<const PathBranch> own_branches() const { return std::span(branches).subspan(outer); }
};

/// A callable that appends the rows of a residual.
using RowsOf = std::function<void(std::vector<Value>&)>;

/// Runs a callable within the caller's scopes. Throws what it throws, and Error{Shape} and
/// Error{StaleValue} as add_residual does.
TracedPath trace_path(const RowsOf& call, const Caller& caller);

/// The conditions of a path's first branches, evaluated for many elements. Any thread may call.
class PathConditions {
 public:
  /// `path` must outlive this object.
  PathConditions(const TracedPath& path, std::size_t count);

  /// True if all conditions have their recorded results with these numbers; false if one has no
  /// number. Cost: linear in the nodes that the conditions need.
  bool hold(const ProblemState& state, const Point& point, const ElementNumbers* element) const;

 private:
  const TracedPath& path_;
  std::size_t count_;
  std::vector<std::uint32_t> nodes_;
};

/// True if all branches of a path have their recorded results with these numbers; false if one has
/// no number.
bool holds(const TracedPath& path, const ProblemState& state, const Point& point,
           const ElementNumbers* element);
/// The same for the branches that were taken before the callable ran.
bool outer_holds(const TracedPath& path, const ProblemState& state, const Point& point,
                 const ElementNumbers* element);

/// True if both take the same branches.
bool same_branches(const TracedPath& a, const TracedPath& b);

/// Combines different paths through one callable into one expression: where two of them part, it
/// uses select() with the condition at which they do. A branch that all known paths take in one
/// direction stays a branch, under the conditions that lead to it.
///
/// Throws Error{Shape} if paths have different numbers of rows, Error{InvalidArgument} if the
/// callable did not branch at the same conditions in each path.
TracedPath combine(std::span<const TracedPath* const> paths, const Caller& caller);

/// A tape with the leaves of one element instead of symbolic ones.
struct ConcreteTape {
  std::vector<TapeNode> nodes;
  std::vector<std::uint32_t> rows;
  std::vector<RawGuard> guards;
  RawTape view() const { return {nodes, rows, guards}; }
};
ConcreteTape concrete(const TracedPath& path, const ElementNumbers& element, std::uint32_t problem);

using RowsOfElement = std::function<void(Element, std::vector<Value>&)>;

/// Runs a map's callable for one element, with `script` for the first branches and the numbers at
/// `point` for the others.
TracedPath trace_element(const RowsOfElement& call, const ProblemState& state, MapTrace& trace,
                         const Point& point, std::span<const std::uint32_t> indices,
                         std::span<const double> data, std::span<const bool> script,
                         const Caller& caller);

/// The paths that elements of one shape take.
struct ElementPaths {
  std::vector<TracedPath> paths;
  std::vector<std::size_t> elements;   ///< elements of this shape
  std::vector<std::uint32_t> path_of;  ///< by position in `elements`
};

/// The possible forms of elements of one shape: one path, or several in one expression.
struct ElementForms {
  struct Form {
    std::vector<std::uint32_t> paths;  ///< ascending
    TracedPath combined;               ///< if there are several
  };
  std::vector<TracedPath> paths;
  std::vector<Form> forms;
};

/// The form is unknown: the callable ran before anything of it was stored.
inline constexpr std::uint32_t kUnknownForm = ~std::uint32_t{0};

/// The callable of one add_residuals, or of one add_residual, that has branches.
class TracedMap {
 public:
  /// The present state of one element.
  struct ElementState {
    std::uint32_t shape = 0;
    std::uint32_t form = kUnknownForm;
    std::uint32_t flips = 0;  ///< number of failed branches
  };

  /// Copies the data that the options refer to. `ids` are the elements' residuals, ascending.
  TracedMap(RowsOfElement call, const MapOptions& options, std::vector<std::uint64_t> ids);

  void add_shape(ElementPaths paths);

  std::span<const std::uint64_t> ids() const { return ids_; }
  /// The element of a residual; none if it belongs to another map.
  std::size_t element_of(std::uint64_t id) const;
  ElementState& state_of(std::size_t element) { return states_[element]; }

  /// Traces the element with the branches that it takes at `point`. The result is one path; if the
  /// element failed branches before, or its branches cannot be told apart, it is one expression of
  /// all paths that it took. Changes the element's state.
  ///
  /// Throws Error{StaleBranch} if a branch outside of the callable failed, or too many branches
  /// cannot be told apart; and what the callable and combine() throw.
  ConcreteTape retake(const ProblemState& state, std::size_t element, const Point& point,
                      const Caller& caller);
  /// True if form `a` of an element is correct wherever form `b` is.
  bool includes(const ElementState& a, const ElementState& b) const;

  std::size_t bytes() const;

 private:
  /// The path of the element at `point`: a known one, or the result of running the callable.
  std::uint32_t path_at(const ProblemState& state, std::size_t element, const Point& point,
                        const Caller& caller);
  /// Paths that differ from `path` in one of its branches.
  std::vector<std::uint32_t> neighbours(const ProblemState& state, std::size_t element,
                                        const Point& point, std::uint32_t path,
                                        const Caller& caller);
  std::uint32_t run(const ProblemState& state, std::size_t element, const Point& point,
                    std::span<const bool> script, const Caller& caller);
  std::uint32_t form_of(std::uint32_t shape, std::vector<std::uint32_t> paths,
                        const Caller& caller);
  ElementNumbers numbers(std::size_t element, const TracedPath& path) const {
    return {path.forms, elements_.indices(element), elements_.data(element)};
  }

  RowsOfElement call_;
  std::vector<std::uint32_t> indices_, offsets_, data_offsets_;
  std::vector<double> data_;
  MapOptions options_;  // views of the copies
  MapElements elements_;
  std::vector<std::uint64_t> ids_;
  std::vector<ElementForms> shapes_;
  std::vector<ElementState> states_;  // by element
};

/// All callables of a problem.
struct Callables {
  std::map<std::uint64_t, std::unique_ptr<TracedMap>> maps;  ///< by the first id
  std::map<std::uint64_t, RowsOf> singles;                   ///< by id, until traced again

  /// The map that contains a residual, made of a single callable if needed. Null if there is none.
  TracedMap* find(std::uint64_t id);
};

}  // namespace topograd::detail
