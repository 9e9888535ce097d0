// The parts of a problem share callers of errors, callables, losses among uniforms, and data.
#include "problem_state.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "branch.hpp"
#include "callables.hpp"

namespace topograd::detail {
namespace {

/// The entries of a column's rows, relative to an array of `size` numbers that begins at entry
/// `first`; null if a row's number does not come from this array.
ir::ResidentColumn::Places places_of(const Group& group, std::uint32_t column, std::uint32_t first,
                                     std::size_t size) {
  const std::size_t rows = group.batch.size(), columns = group.batch.data_columns();
  if (rows == 0 || group.sources.empty()) return nullptr;
  auto places = std::make_shared<std::vector<std::uint32_t>>(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint32_t place = group.sources[i * columns + column] - first;
    if (place >= size) return nullptr;
    (*places)[i] = place;
  }
  return places;
}

}  // namespace

ProblemState::ProblemState() : serial(next_serial()) { enter_problem(*this); }
ProblemState::~ProblemState() { leave_problem(*this); }

Callables& ProblemState::callables_of(BlockKind kind) {
  std::unique_ptr<Callables>& kept = callables[static_cast<std::size_t>(kind)];
  if (kept == nullptr) kept = std::make_unique<Callables>();
  return *kept;
}

Caller ProblemState::caller(std::string_view call, std::string_view label, BlockKind kind) const {
  return {.call = call,
          .label = label,
          .number = blocks.ledger(kind).blocks,
          .problem = serial,
          .parameters = unknowns.scalars(),
          .uniforms = uniforms.size(),
          .data = data.size(),
          .block = kind,
          .state = this};
}

std::uint32_t ProblemState::group_of(const ir::Canonical& canonical, BlockKind kind,
                                     std::uint32_t loss_program) {
  if (is_constraint(kind) && blocks.penalty_uniform == kNoUniform) {
    blocks.penalty_uniform = static_cast<std::uint32_t>(uniforms.size());
    uniforms.insert(uniforms.end(), {0, 0});
    ++versions.uniforms;
  }
  const std::size_t before = blocks.groups.size();
  const std::uint32_t group = blocks.group_of(canonical.topology, kind, loss_program);
  if (blocks.groups.size() > before && !canonical.exact) ++statistics.canonical_misses;
  return group;
}

std::uint32_t ProblemState::loss_entry(const char* call, const Loss& loss) {
  const std::size_t before = uniforms.size();
  const std::uint32_t entry = blocks.losses.entry(call, loss, uniforms);
  if (uniforms.size() > before) ++versions.uniforms;
  return entry;
}

void ProblemState::set_loss(std::uint64_t first, std::uint64_t last, const Loss& loss) {
  blocks.set_loss(first, last, loss, uniforms);
  ++versions.uniforms;
}

void ProblemState::set_data(std::uint32_t first, std::span<const double> values) {
  data.set(first, values);
  for (Group& group : blocks.groups) {
    const std::uint32_t columns = group.batch.data_columns();
    for (std::uint32_t c = 0; c < columns; ++c) {
      const ir::ResidentColumn* const resident = group.batch.resident(c);
      if (resident && group.sources[c] - first < values.size()) group.batch.forget_resident(c);
    }
    for (std::size_t k = 0; k < group.sources.size(); ++k) {
      const std::uint32_t entry = group.sources[k] - first;
      if (entry >= values.size()) continue;
      group.batch.set_data(k / columns, static_cast<std::uint32_t>(k % columns), values[entry]);
    }
  }
  ++versions.data;
}

/// A column whose rows all come from this array reads the numbers in place; others get copies.
void ProblemState::set_data(std::uint32_t first, std::shared_ptr<const ir::ResidentData> values) {
  const std::size_t size = values->size();
  for (Group& group : blocks.groups) {
    const std::uint32_t columns = group.batch.data_columns();
    for (std::uint32_t c = 0; c < columns; ++c) {
      const bool reads = [&] {
        for (std::size_t k = c; k < group.sources.size(); k += columns) {
          if (group.sources[k] - first < size) return true;
        }
        return false;
      }();
      if (!reads) continue;
      const ir::ResidentColumn* const before = group.batch.resident(c);
      ir::ResidentColumn::Places places =
          before ? before->places : places_of(group, c, first, size);
      if (!places) return set_data(first, std::span<const double>(values->read()));
      group.batch.set_resident(c, {values, std::move(places)});
    }
  }
  data.set(first, std::move(values));
  ++versions.data;
}

void DataArrays::append(std::span<const double> values) {
  numbers_.insert(numbers_.end(), values.begin(), values.end());
}

void DataArrays::forget(std::uint32_t first) {
  std::erase_if(away_, [first](const Resident& resident) { return resident.first == first; });
  all_here_ = away_.empty();
}

void DataArrays::set(std::uint32_t first, std::span<const double> values) {
  std::ranges::copy(values, numbers_.begin() + first);
  forget(first);
}

void DataArrays::set(std::uint32_t first, std::shared_ptr<const ir::ResidentData> values) {
  forget(first);
  away_.push_back({first, std::move(values)});
  all_here_ = false;
}

void DataArrays::bring() const {
  const std::lock_guard lock(mutex_);
  while (!away_.empty()) {
    std::ranges::copy(away_.back().numbers->read(), numbers_.begin() + away_.back().first);
    away_.pop_back();
  }
  all_here_.store(true, std::memory_order_release);
}

}  // namespace topograd::detail
