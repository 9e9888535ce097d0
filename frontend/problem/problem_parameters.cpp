// Problem: the arrays of unknowns, and who reads one that is to be removed.
#include "../../ir/error.hpp"
#include "../problem.hpp"
#include "problem_state.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace detail {
namespace {

std::uint32_t scalars_of(const ParameterArray& array) { return array.blocks * array.width; }

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
    for (const Group& group : state.blocks.groups)
      if (group.kind == kind) look(group);
    for (const HostBlock& block : state.blocks.host_blocks) {
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
      note({state_.blocks.id_of(group, i), found[i], state_.blocks.run_of(group, i).label, 0});
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
  for (const Group& group : state.blocks.groups) {
    if (&state.blocks.ledger(group.kind) != &state.blocks.ledger(kind)) continue;
    for (std::size_t i = 0; i < group.batch.size(); ++i)
      number += state.blocks.id_of(group, i) < id;
  }
  for (const HostBlock& block : state.blocks.host_blocks)
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
    if (reader.label != 0) text += " \"" + state.labels.text(reader.label) + "\"";
    text += " #" + std::to_string(number_of_block(state, kind, reader.id)) + " reads block " +
            std::to_string((reader.scalar - array.offset) / array.width) + " of " +
            (array.name.empty() ? "it" : "\"" + array.name + "\"");
    if (readers.count() > 1) text += ", and " + std::to_string(readers.count() - 1) + " more do";
    throw Error(ErrorCode::InvalidArgument, text);
  }
}

}  // namespace

void ProblemState::check_present(std::uint32_t group, const Caller& caller) const {
  const std::uint32_t parameters = blocks.groups[group].topology.program.leaves.parameters;
  for (std::uint32_t k = 0; k < parameters; ++k)
    if (unknowns.is_removed(tracing.row.indices[k])) caller.fail_removed(tracing.row.indices[k]);
}

void ProblemState::remove_array(std::size_t number) {
  refuse_readers(*this, unknowns.arrays()[number]);
  unknowns.remove(number);
  ++versions.structure;
}

}  // namespace detail

void Problem::check_present(const char* call, const Parameters& x) const {
  detail::check_owner(call, "parameter array", x.problem_, whole(state_).serial);
  const bool inside = x.offset_ < whole(state_).unknowns.scalars();
  const std::size_t number = inside ? whole(state_).unknowns.array_number(x.offset_) : 0;
  if (inside) {
    const ParameterArray& at = whole(state_).unknowns.arrays()[number];
    if (at.values != nullptr && at.offset == x.offset_ && at.blocks == x.blocks_ &&
        at.width == x.width_)
      return;
  }
  throw Error(ErrorCode::InvalidArgument,
              std::string(call) + ": the parameter array is not there, or was removed before");
}

Parameters Problem::parameters(std::size_t number) const {
  const std::vector<ParameterArray>& all = whole(state_).unknowns.arrays();
  if (number >= all.size() || all[number].values == nullptr)
    throw Error(ErrorCode::InvalidArgument, "parameters: there is no array " +
                                                std::to_string(number) + " (the problem has " +
                                                std::to_string(all.size()) + ")");
  const ParameterArray& array = all[number];
  return {whole(state_).serial, array.offset, array.blocks, array.width};
}

void Problem::watch(const Parameters& x, const detail::Lender& lender) {
  whole(state_).unknowns.watch(x.offset_, lender);
}

void Problem::remove(const Parameters& x) {
  changing(state_, "remove");
  check_present("remove", x);
  whole(state_).remove_array(whole(state_).unknowns.array_number(x.offset_));
}

}  // namespace topograd
