// Moves instances whose guards fail to other topologies.
#include "branches.hpp"
#include "../../ir/error.hpp"
#include "../problem/callables.hpp"
#include "../problem/problem_state.hpp"

#include <algorithm>

namespace topograd {

using detail::ProblemState;
using detail::TracedMap;

struct Branches::Moved {
  std::uint64_t id;
  std::uint32_t group;
  detail::Row row;
  TracedMap* map;
  std::size_t element;
  std::uint32_t form;
};

bool Branches::any() const {
  return std::ranges::any_of(
      require_not_moved_from(problem_.state_).blocks.groups, [](const detail::Group& group) {
        return group.batch.size() > 0 && !group.topology.program.guards.empty();
      });
}

void Branches::retake(std::span<const BranchFailure> failures, std::span<const double> x,
                      bool narrow,
                      const std::function<std::string(const BranchFailure&)>& describe) {
  ProblemState& state = require_not_moved_from(problem_.state_);
  const detail::Point point{x, narrow};
  // Moves renumber instances, but ids stay.
  struct Failed {
    std::uint64_t id;
    BlockKind kind;
    std::string label;
  };
  std::vector<Failed> failed;
  for (const BranchFailure& failure : failures) {
    const detail::Group& group = state.blocks.groups[failure.topology];
    const std::uint64_t id = state.blocks.id_of(group, failure.instance);
    const auto& callables = state.callables[static_cast<std::size_t>(group.kind)];
    if (callables == nullptr || callables->find(id) == nullptr)
      throw Error(ErrorCode::StaleBranch,
                  "if: a branch of " + describe(failure) +
                      " holds no longer, and there is no callable to trace it again; add the "
                      "residual by a callable, or use select(condition, a, b)");
    failed.push_back(
        {id, group.kind, std::string(problem_.label(failure.topology, failure.instance))});
  }
  for (const auto& [id, kind, label] : failed) {
    TracedMap& map = *state.callables[static_cast<std::size_t>(kind)]->find(id);
    const std::size_t element = map.element_of(id);
    const TracedMap::ElementState before = map.state_of(element);
    detail::Caller caller = state.caller("if", label, kind);
    caller.number = id;
    const detail::ConcreteTape tape = map.retake(state, element, point, caller);
    const detail::Location from = state.blocks.locate(id, kind);
    const std::uint32_t loss = state.blocks.loss_of(state.blocks.groups[from.group], from.instance);
    const std::uint32_t to =
        detail::match_tape(state, tape.view(), caller, state.blocks.losses[loss].program);
    const std::uint32_t had = state.blocks.groups[from.group].outputs(),
                        has = state.blocks.groups[to].outputs();
    if (had != has) {
      map.state_of(element) = before;
      caller.fail(ErrorCode::Shape, "expected " + std::to_string(had) +
                                        " rows on every path through the callable, got " +
                                        std::to_string(has));
    }
    if (!map.includes(map.state_of(element), before))
      moved_.push_back(std::make_shared<const Moved>(
          Moved{id, from.group, state.blocks.row_of(from), &map, element, before.form}));
    const detail::Row row = state.tracing.row;
    state.blocks.move(id, to, row);
  }
}

std::size_t Branches::undo() {
  const std::size_t count = moved_.size();
  for (std::size_t k = moved_.size(); k-- > 0;) {
    const Moved& moved = *moved_[k];
    require_not_moved_from(problem_.state_).blocks.move(moved.id, moved.group, moved.row);
    moved.map->state_of(moved.element).form = moved.form;
  }
  moved_.clear();
  return count;
}

}  // namespace topograd
