// Problem: adding and removing parameter arrays. A removed array leaves a gap in x, which is fixed,
// until it is at the end or another array takes it.
#include "../../ir/error.hpp"
#include "../problem.hpp"
#include "problem_state.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace detail {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

std::uint32_t scalars_of(const ParameterArray& array) { return array.blocks * array.width; }
bool is_gap(const ParameterArray& array) { return array.values == nullptr; }

/// A block that reads removed unknowns, as an error names it.
struct Reader {
  std::uint64_t id = ~std::uint64_t{0};
  std::uint32_t scalar = 0;  ///< first removed scalar that it reads
  std::uint32_t label = 0;
  std::uint64_t others = 0;  ///< further blocks of the kind that read removed unknowns
};

/// Finds the first block of each kind that reads certain unknowns.
class Readers {
 public:
  Readers(const ProblemState& state, BlockKind kind, std::uint32_t first, std::uint32_t end)
      : state_(state), first_(first), end_(end) {
    for (const Group& group : state.groups)
      if (group.kind == kind) look(group);
    for (const HostBlock& block : state.host_blocks) {
      if (kind != BlockKind::residual) break;
      for (std::size_t k = 0; k < block.offsets.size(); ++k) {
        if (!reads(block.offsets[k])) continue;
        note({block.id, block.offsets[k], block.label, 0});
        break;
      }
    }
  }

  std::uint64_t count() const { return count_; }
  const Reader& earliest() const { return earliest_; }

 private:
  bool reads(std::uint32_t scalar) const { return scalar >= first_ && scalar < end_; }

  void look(const Group& group) {
    const std::size_t instances = group.batch.size();
    std::vector<std::uint32_t> column(instances), found(instances, kNone);
    for (std::size_t s = 0; s < group.batch.parameter_columns(); ++s) {
      group.batch.copy_index_column(static_cast<std::uint32_t>(s), 0, column);
      for (std::size_t i = 0; i < instances; ++i)
        if (reads(column[i])) found[i] = std::min(found[i], column[i]);
    }
    for (std::size_t i = 0; i < instances; ++i) {
      if (found[i] == kNone) continue;
      note({state_.id_of(group, i), found[i], state_.run_of(group, i).label, 0});
    }
  }
  void note(const Reader& reader) {
    ++count_;
    if (reader.id < earliest_.id) earliest_ = reader;
  }

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  const ProblemState& state_;
  std::uint32_t first_, end_;
  std::uint64_t count_ = 0;
  Reader earliest_;
};

/// The number of blocks of a kind that were added before `id`.
std::uint64_t number_of_block(const ProblemState& state, BlockKind kind, std::uint64_t id) {
  std::uint64_t number = 0;
  for (const Group& group : state.groups) {
    if (&state.ledger(group.kind) != &state.ledger(kind)) continue;
    for (std::size_t i = 0; i < group.batch.size(); ++i) number += state.id_of(group, i) < id;
  }
  for (const HostBlock& block : state.host_blocks)
    number += kind == BlockKind::residual && block.id < id;
  return number;
}

void refuse_readers(const ProblemState& state, const ParameterArray& array) {
  for (const BlockKind kind :
       {BlockKind::residual, BlockKind::energy, BlockKind::equality, BlockKind::inequality}) {
    const Readers readers(state, kind, array.offset, array.offset + scalars_of(array));
    if (readers.count() == 0) continue;
    const Reader& reader = readers.earliest();
    std::string text =
        std::string("remove: expected an array that nothing reads, but ") + std::string(noun(kind));
    if (reader.label != 0) text += " \"" + state.labels[reader.label] + "\"";
    text += " #" + std::to_string(number_of_block(state, kind, reader.id)) + " reads block " +
            std::to_string((reader.scalar - array.offset) / array.width) + " of " +
            (array.name.empty() ? "it" : "\"" + array.name + "\"");
    if (readers.count() > 1) text += ", and " + std::to_string(readers.count() - 1) + " more do";
    throw Error(ErrorCode::InvalidArgument, text);
  }
}

/// Throws an error that names the first blocks of the array at `values` and of the array at `other`
/// that share memory.
[[noreturn]] void refuse_shared_memory(const ProblemState& state, const double* values,
                                       std::uint32_t width, const double* other) {
  const auto array = std::ranges::find(state.arrays, other, &ParameterArray::values);
  const double* shared = std::max(values, other, std::less<>());
  throw Error(ErrorCode::InvalidArgument,
              "add_parameters: block " + std::to_string((shared - values) / width) +
                  " of the new array shares memory with block " +
                  std::to_string((shared - other) / array->width) + " of parameter " +
                  (array->name.empty() ? "array " + std::to_string(array - state.arrays.begin())
                                       : "\"" + array->name + "\""));
}

/// Resets flags, bounds and manifolds of the scalars of arrays[number], for a new array or a gap.
void reset_place(ProblemState& state, std::size_t number) {
  const ParameterArray& array = state.arrays[number];
  const std::size_t first = array.offset, count = scalars_of(array);
  const auto fill = [&](auto& of, auto value) {
    if (!of.empty()) std::fill_n(of.begin() + static_cast<std::ptrdiff_t>(first), count, value);
  };
  if (is_gap(array) && state.constants.empty()) state.constants.assign(state.scalars, 0);
  const auto ones = [&] {
    if (state.constants.empty()) return std::ptrdiff_t{0};
    const auto begin = state.constants.begin() + static_cast<std::ptrdiff_t>(first);
    return std::count(begin, begin + static_cast<std::ptrdiff_t>(count), 1);
  };
  const std::ptrdiff_t before = ones();
  fill(state.constants, static_cast<std::uint8_t>(is_gap(array) ? 1 : 0));
  state.constant_count =
      static_cast<std::size_t>(static_cast<std::ptrdiff_t>(state.constant_count) + ones() - before);
  if (state.constant_count == 0) state.constants.clear();
  fill(state.lower, -kUnbounded);
  fill(state.upper, kUnbounded);
  if (number < state.manifold_numbers.size()) state.manifold_numbers[number].clear();
  ++state.versions.constants;
}

/// Moves the blocks of arrays[number] after the first `blocks` ones to a new array after it.
void split(ProblemState& state, std::size_t number, std::uint32_t blocks) {
  ParameterArray& whole = state.arrays[number];
  const ParameterArray rest{whole.offset + blocks * whole.width, whole.blocks - blocks, whole.width,
                            nullptr, ""};
  whole.blocks = blocks;
  const auto after = static_cast<std::ptrdiff_t>(number) + 1;
  state.arrays.insert(state.arrays.begin() + after, rest);
  if (number < state.manifold_numbers.size())
    state.manifold_numbers.insert(state.manifold_numbers.begin() + after,
                                  std::vector<std::uint32_t>());
}

void erase_array(ProblemState& state, std::size_t number) {
  const auto at = static_cast<std::ptrdiff_t>(number);
  state.arrays.erase(state.arrays.begin() + at);
  if (number < state.manifold_numbers.size())
    state.manifold_numbers.erase(state.manifold_numbers.begin() + at);
}

/// Joins neighbouring gaps of one width.
void join_gaps(ProblemState& state, std::size_t number) {
  const auto join = [&](std::size_t left) {
    if (left + 1 >= state.arrays.size()) return;
    ParameterArray &a = state.arrays[left], &b = state.arrays[left + 1];
    if (!is_gap(a) || !is_gap(b) || a.width != b.width) return;
    a.blocks += b.blocks;
    erase_array(state, left + 1);
    --state.gaps;
  };
  join(number);
  if (number > 0) join(number - 1);
}

/// Removes gaps at the end of x.
void cut_end(ProblemState& state) {
  while (!state.arrays.empty() && is_gap(state.arrays.back())) {
    const std::size_t count = scalars_of(state.arrays.back());
    state.scalars -= static_cast<std::uint32_t>(count);
    if (!state.constants.empty()) state.constants.resize(state.scalars);
    state.constant_count -= count;
    if (state.constant_count == 0) state.constants.clear();
    if (!state.lower.empty()) state.lower.resize(state.scalars);
    if (!state.upper.empty()) state.upper.resize(state.scalars);
    erase_array(state, state.arrays.size() - 1);
    --state.gaps;
  }
}

}  // namespace

std::size_t ProblemState::array_number(std::uint32_t scalar) const {
  const auto after = std::upper_bound(
      arrays.begin(), arrays.end(), scalar,
      [](std::uint32_t index, const ParameterArray& array) { return index < array.offset; });
  return static_cast<std::size_t>(after - arrays.begin()) - 1;
}

std::string ProblemState::of_parameters(std::uint32_t scalar) const {
  if (scalar >= scalars) return "";
  const std::string& name = arrays[array_number(scalar)].name;
  return name.empty() ? "" : " of parameter \"" + name + "\"";
}

bool ProblemState::is_removed(std::uint32_t scalar) const {
  return scalar >= scalars || (gaps > 0 && is_gap(arrays[array_number(scalar)]));
}

void ProblemState::check_present(std::uint32_t group, const Caller& caller) const {
  const std::uint32_t parameters = groups[group].topology.program.leaves.parameters;
  for (std::uint32_t k = 0; k < parameters; ++k)
    if (is_removed(row.indices[k])) caller.fail_removed(row.indices[k]);
}

std::uint32_t ProblemState::add_array(std::span<double> values, std::uint32_t width,
                                      std::string_view name) {
  if (const double* other = memory.add(values.data(), values.size()))
    refuse_shared_memory(*this, values.data(), width, other);
  const auto count = static_cast<std::uint32_t>(values.size());
  for (std::size_t k = 0; gaps > 0 && k < arrays.size(); ++k) {
    if (!is_gap(arrays[k]) || arrays[k].width != width || scalars_of(arrays[k]) < count) continue;
    if (scalars_of(arrays[k]) > count) {
      split(*this, k, count / width);
    } else {
      --gaps;
    }
    arrays[k].values = values.data();
    arrays[k].name = name;
    reset_place(*this, k);
    return arrays[k].offset;
  }
  arrays.push_back({scalars, count / width, width, values.data(), std::string(name)});
  scalars += count;
  if (!constants.empty()) constants.resize(scalars, 0);
  if (!lower.empty()) lower.resize(scalars, -kUnbounded);
  if (!upper.empty()) upper.resize(scalars, kUnbounded);
  return arrays.back().offset;
}

void ProblemState::check_lenders() const {
  for (const auto& [values, lender] : lenders) {
    const auto array = std::ranges::find(arrays, values, &ParameterArray::values);
    const std::span<const double> now = lender.numbers(lender.container);
    if (now.data() == values && now.size() == scalars_of(*array)) continue;
    const std::string which = array->name.empty()
                                  ? "array " + std::to_string(array - arrays.begin())
                                  : "\"" + array->name + "\"";
    throw Error(ErrorCode::InvalidArgument,
                "parameter " + which +
                    ": the container that add_parameters was given has changed since: it had " +
                    std::to_string(scalars_of(*array)) + " numbers and has " +
                    std::to_string(now.size()) +
                    (now.data() == values ? " at the same place" : " at another place") +
                    "; a Problem keeps the pointer: fill containers before add_parameters, or "
                    "remove the array, change the container and add it again");
  }
}

void ProblemState::remove_array(std::size_t number) {
  refuse_readers(*this, arrays[number]);
  memory.remove(arrays[number].values);
  lenders.erase(arrays[number].values);
  arrays[number].values = nullptr;
  arrays[number].name.clear();
  removed_arrays = true;
  ++gaps;
  reset_place(*this, number);
  join_gaps(*this, number);
  cut_end(*this);
  ++versions.structure;
}

}  // namespace detail

void Problem::check_present(const char* call, const Parameters& x) const {
  detail::check_owner(call, "parameter array", x.problem_, whole(state_).serial);
  const bool inside = x.offset_ < whole(state_).scalars;
  const std::size_t number = inside ? whole(state_).array_number(x.offset_) : 0;
  if (inside) {
    const ParameterArray& at = whole(state_).arrays[number];
    if (at.values != nullptr && at.offset == x.offset_ && at.blocks == x.blocks_ &&
        at.width == x.width_)
      return;
  }
  throw Error(ErrorCode::InvalidArgument,
              std::string(call) + ": the parameter array is not there, or was removed before");
}

Parameters Problem::parameters(std::size_t number) const {
  const std::vector<ParameterArray>& all = whole(state_).arrays;
  if (number >= all.size() || all[number].values == nullptr)
    throw Error(ErrorCode::InvalidArgument, "parameters: there is no array " +
                                                std::to_string(number) + " (the problem has " +
                                                std::to_string(all.size()) + ")");
  const ParameterArray& array = all[number];
  return {whole(state_).serial, array.offset, array.blocks, array.width};
}

void Problem::watch(const Parameters& x, const detail::Lender& lender) {
  detail::ProblemState& state = whole(state_);
  state.lenders[state.arrays[state.array_number(x.offset_)].values] = lender;
}

void Problem::remove(const Parameters& x) {
  changing(state_, "remove");
  check_present("remove", x);
  whole(state_).remove_array(whole(state_).array_number(x.offset_));
}

}  // namespace topograd
