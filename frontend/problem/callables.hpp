// Callables of residuals with branches, kept so that residuals can be traced again.
#pragma once

#include "map_elements.hpp"
#include "traced_path.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::detail {

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
  std::vector<std::size_t> elements;   ///< of this shape
  std::vector<std::uint32_t> path_of;  ///< by position in `elements`
};

/// What elements of one shape can be: one path, or several in one expression.
struct ElementForms {
  struct Form {
    std::vector<std::uint32_t> paths;  ///< ascending
    TracedPath combined;               ///< where there are several
  };
  std::vector<TracedPath> paths;
  std::vector<Form> forms;
};

/// A form that is not known: its callable ran before anything was kept of it.
inline constexpr std::uint32_t kUnknownForm = ~std::uint32_t{0};

/// One add_residuals, or one add_residual with a callable, that has branches.
class TracedMap {
 public:
  /// What one element is at present.
  struct ElementState {
    std::uint32_t shape = 0;
    std::uint32_t form = kUnknownForm;
    std::uint32_t flips = 0;  ///< times that it failed a branch
  };

  /// Copies what the options refer to. `ids` are the elements' residuals, ascending.
  TracedMap(RowsOfElement call, const MapOptions& options, std::vector<std::uint64_t> ids);

  void add_shape(ElementPaths paths);

  std::span<const std::uint64_t> ids() const { return ids_; }
  /// The element of a residual, if it is one of these.
  std::size_t element_of(std::uint64_t id) const;
  ElementState& state_of(std::size_t element) { return states_[element]; }

  /// The element with the branches that it takes at `point`: one path, or, where it failed branches
  /// before or they cannot be told apart, all that it took in one expression. Changes its state.
  ///
  /// Throws Error{StaleBranch} if a branch outside of the callable is to blame, or too many
  /// branches cannot be told apart; and what the callable and combine() throw.
  ConcreteTape retake(const ProblemState& state, std::size_t element, const Point& point,
                      const Caller& caller);
  /// True if form `a` of an element is right wherever form `b` is.
  bool includes(const ElementState& a, const ElementState& b) const;

  std::size_t bytes() const;

 private:
  /// The path that the element takes at `point`: a known one, or what a run of the callable gives.
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
  MapOptions options_;  // of the copies
  MapElements elements_;
  std::vector<std::uint64_t> ids_;
  std::vector<ElementForms> shapes_;
  std::vector<ElementState> states_;  // by element
};

/// All of a problem.
struct Callables {
  std::map<std::uint64_t, std::unique_ptr<TracedMap>> maps;  ///< by the first id
  std::map<std::uint64_t, RowsOf> singles;                   ///< by id, until they are traced again

  /// The map that a residual belongs to; one of its own is made of a single. Null if there is none.
  TracedMap* find(std::uint64_t id);
};

}  // namespace topograd::detail
