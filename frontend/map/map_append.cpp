// Writes the rows of a map's elements to their places among the instances of their topologies.
#include "../problem/classify.hpp"
#include "map_parts.hpp"

#include <algorithm>

namespace topograd::detail {
namespace {

SlotRead slot_read(const TapeNode& leaf, std::span<const AddressForm> forms) {
  if ((leaf.head & kSymbolic) == 0) return {kNoColumn, leaf.a, 0};
  const AddressForm& form = forms[leaf.a];
  return {form.column, form.entry(0), form.width};
}

DataRead data_read(const TapeNode& leaf, std::span<const AddressForm> forms) {
  const bool symbolic = (leaf.head & kSymbolic) != 0;
  if (symbolic && forms[leaf.a].direct)
    return {DataRead::Kind::Own, {forms[leaf.a].column, 0, 0}, 0};
  if (symbolic || (leaf.head & kBound) != 0)
    return {DataRead::Kind::Entry, slot_read(leaf, forms), 0};
  return {DataRead::Kind::Number, {}, number_of(leaf)};
}

/// Elements per piece, so large that a count for each piece and group takes at most half a byte per
/// element.
std::size_t piece_for(std::size_t groups) {
  return std::max(kPieceOfElements, 2 * sizeof(std::uint64_t) * groups);
}

class Append {
 public:
  Append(ProblemState& state, const MapElements& elements, std::span<const Part> parts,
         std::span<const std::uint32_t> part_of, const Appended& what)
      : state_(state),
        elements_(elements),
        parts_(parts),
        part_of_(part_of),
        what_(what),
        entries_(state.data.numbers()),
        first_row_(state.blocks.ledger(what.kind).first_row + state.blocks.ledger(what.kind).rows),
        first_id_(state.blocks.ledger(what.kind).next_id) {
    find_groups();
  }

  std::uint64_t run(std::vector<std::uint64_t>* ids) {
    count();
    make_room();
    if (ids != nullptr) ids->resize(elements_.size());
    for_pieces(elements_.size(), piece_, [&](std::size_t k, std::size_t begin, std::size_t end) {
      if (!alike()) return write(k, begin, end, ids);
      write_columns(begin, end);
      for (std::size_t e = begin; ids != nullptr && e < end; ++e)
        (*ids)[e] = first_id_ + e * targets_[0].outputs;
    });
    return first_id_;
  }

 private:
  /// A group that gets instances.
  struct Target {
    std::uint32_t group = 0;
    std::uint32_t outputs = 0;
    std::vector<std::uint32_t> hidden_uniforms;  // their numbers
    std::uint32_t hidden_data = 0;
    bool from_arrays = false;
    std::size_t count = 0;  // of new instances
    std::size_t first = 0;  // first new instance
    std::vector<ir::Batch::NewRows> blocks;
    std::uint32_t* sources = nullptr;  // sources of the first new instance, if they are stored
    std::size_t data_columns = 0;
  };

  void find_groups();
  void count();
  void make_room();
  void write(std::size_t piece, std::size_t begin, std::size_t end,
             std::vector<std::uint64_t>* ids);
  bool alike() const {
    return parts_.size() == 1 && targets_[0].sources == nullptr &&
           !state_.blocks.ledger(what_.kind).removed_any;
  }
  void write_columns(std::size_t begin, std::size_t end) const;
  const ir::Batch::NewRows& block_of(const Target& to, std::size_t instance) const {
    return to.blocks[instance / ir::Batch::kBlockRows - to.first / ir::Batch::kBlockRows];
  }
  std::vector<std::uint32_t> hidden_of(const Group& group) const {
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t k = 0; k < group.hidden_uniforms; ++k)
      numbers.push_back(state_.blocks.hidden_uniform(group, what_.loss, k));
    return numbers;
  }
  void write_row(const Part& part, const Target& to, std::size_t number, std::size_t element,
                 std::uint64_t row) const;

  ProblemState& state_;
  const MapElements& elements_;
  std::span<const Part> parts_;
  std::span<const std::uint32_t> part_of_;
  const Appended& what_;
  std::span<const double> entries_;
  std::uint64_t first_row_, first_id_;
  std::vector<Target> targets_;
  std::vector<std::uint32_t> target_of_;  // for each part
  std::size_t piece_ = 0;
  std::vector<std::uint64_t> begins_;  // for each piece and target: first new instance
  std::vector<std::uint64_t> rows_;    // for each piece: row of its first element
};

void Append::find_groups() {
  const std::uint32_t program = state_.blocks.losses[what_.loss].program;
  for (const Part& part : parts_) {
    const std::uint32_t group =
        state_.blocks.variant(state_.group_of(part.canonical, what_.kind, program), program);
    const auto known = std::ranges::find(targets_, group, &Target::group);
    target_of_.push_back(static_cast<std::uint32_t>(known - targets_.begin()));
    if (known == targets_.end())
      targets_.push_back({.group = group,
                          .outputs = state_.blocks.groups[group].outputs(),
                          .hidden_uniforms = hidden_of(state_.blocks.groups[group]),
                          .hidden_data = state_.blocks.groups[group].hidden_data,
                          .blocks = {}});
    Target& target = targets_[target_of_.back()];
    target.from_arrays = target.from_arrays || part.from_arrays;
  }
}

void Append::count() {
  piece_ = piece_for(targets_.size());
  const std::size_t n = targets_.size();
  const std::size_t pieces = (elements_.size() + piece_ - 1) / piece_;
  begins_.assign(pieces * n, 0);
  for_pieces(elements_.size(), piece_, [&](std::size_t k, std::size_t begin, std::size_t end) {
    std::uint64_t* const counts = begins_.data() + k * n;
    if (n == 1) {
      counts[0] = end - begin;
      return;
    }
    for (std::size_t e = begin; e < end; ++e) ++counts[target_of_[part_of_[e]]];
  });
  std::uint64_t row = first_row_;
  for (std::size_t k = 0; k < pieces; ++k) {
    rows_.push_back(row);
    for (std::size_t t = 0; t < n; ++t) {
      const std::uint64_t in_piece = begins_[k * n + t];
      begins_[k * n + t] = targets_[t].count;
      targets_[t].count += in_piece;
      row += in_piece * targets_[t].outputs;
    }
  }
}

void Append::make_room() {
  for (Target& target : targets_) {
    const Group& group = state_.blocks.groups[target.group];
    target.first = group.batch.size();
    target.data_columns = group.batch.data_columns();
    const bool sources = target.from_arrays || !group.sources.empty();
    target.blocks = state_.blocks.append_many(
        target.group, {.count = target.count, .first_id = first_id_, .sources = sources},
        what_.label, what_.loss);
    if (sources)
      target.sources =
          state_.blocks.groups[target.group].sources.data() + target.first * target.data_columns;
  }
}

void Append::write(std::size_t piece, std::size_t begin, std::size_t end,
                   std::vector<std::uint64_t>* ids) {
  const std::size_t n = targets_.size();
  std::vector<std::uint64_t> next(begins_.begin() + static_cast<std::ptrdiff_t>(piece * n),
                                  begins_.begin() + static_cast<std::ptrdiff_t>((piece + 1) * n));
  Ledger& kind = state_.blocks.ledger(what_.kind);
  std::uint64_t row = rows_[piece];
  for (std::size_t e = begin; e < end; ++e) {
    const std::uint32_t number = target_of_[part_of_[e]];
    const Target& to = targets_[number];
    const std::size_t instance = next[number]++;
    write_row(parts_[part_of_[e]], to, instance, e, row);
    const std::uint64_t id = first_id_ + (row - first_row_);
    if (ids != nullptr) (*ids)[e] = id;
    if (kind.removed_any) {
      const auto at = static_cast<std::uint32_t>(to.first + instance);
      state_.blocks.groups[to.group].ids[at] = id;
      kind.locations[id] = {to.group, at};
    }
    row += to.outputs;
  }
}

/// The same for elements of a single part: column by column.
void Append::write_columns(std::size_t begin, std::size_t end) const {
  const Part& part = parts_.front();
  const Target& to = targets_.front();
  while (begin < end) {
    const ir::Batch::NewRows& block = block_of(to, to.first + begin);
    const std::size_t at = to.first + begin - block.first;
    const std::size_t n = std::min(end - begin, block.count - at);
    std::uint32_t* index = block.index + at;
    for (const SlotRead& read : part.indices) {
      for (std::size_t i = 0; i < n; ++i) index[i] = read.entry(elements_, begin + i);
      index += block.stride;
    }
    for (const std::uint32_t uniform : to.hidden_uniforms) {
      std::fill_n(index, n, uniform);
      index += block.stride;
    }
    double* data = block.data + at;
    for (const DataRead& read : part.data) {
      if (read.kind == DataRead::Kind::Own) {
        for (std::size_t i = 0; i < n; ++i) data[i] = elements_.data(begin + i, read.entry.column);
      } else {
        std::fill_n(data, n, read.number);
      }
      data += block.stride;
    }
    for (std::uint32_t k = 0; k < to.hidden_data; ++k, data += block.stride)
      std::fill_n(data, n, hidden_number(k, to.hidden_data));
    for (std::size_t i = 0; i < n; ++i) block.row[at + i] = first_row_ + (begin + i) * to.outputs;
    begin += n;
  }
}

void Append::write_row(const Part& part, const Target& to, std::size_t number, std::size_t element,
                       std::uint64_t row) const {
  const std::size_t instance = to.first + number;
  const ir::Batch::NewRows& block = block_of(to, instance);
  const std::size_t at = instance - block.first;
  block.row[at] = row;
  std::uint32_t* index = block.index + at;
  for (const SlotRead& read : part.indices) {
    *index = read.entry(elements_, element);
    index += block.stride;
  }
  for (const std::uint32_t uniform : to.hidden_uniforms) {
    *index = uniform;
    index += block.stride;
  }
  double* data = block.data + at;
  std::uint32_t* source = to.sources == nullptr ? nullptr : to.sources + number * to.data_columns;
  for (const DataRead& read : part.data) {
    std::uint32_t entry = kNoSource;
    switch (read.kind) {
      case DataRead::Kind::Entry:
        entry = read.entry.entry(elements_, element);
        *data = entries_[entry];
        break;
      case DataRead::Kind::Own: *data = elements_.data(element, read.entry.column); break;
      case DataRead::Kind::Number: *data = read.number; break;
    }
    if (source != nullptr) *source++ = entry;
    data += block.stride;
  }
  for (std::uint32_t k = 0; k < to.hidden_data; ++k, data += block.stride)
    *data = hidden_number(k, to.hidden_data);
}

}  // namespace

Part make_part(const MapElements& elements, std::size_t element, const TracedPath& path,
               const Caller& caller) {
  const auto index_of = [&](const TapeNode& leaf) {
    if ((leaf.head & kSymbolic) == 0) return leaf.a;
    return elements.entry(path.forms[leaf.a], element);
  };
  std::vector<RawGuard> guards;
  for (const PathBranch& b : path.branches) guards.push_back({b.condition, b.taken});
  const RawTape raw{path.nodes, path.rows, guards};
  Extraction extraction = extract(raw, index_of, caller);
  Part part{std::move(extraction.canonical), {}, {}, false};
  for (const auto* slots : {&extraction.leaves.parameters, &extraction.leaves.uniforms})
    for (const std::uint32_t node : *slots)
      part.indices.push_back(slot_read(raw.nodes[node], path.forms));
  for (const std::uint32_t node : extraction.leaves.data) {
    part.data.push_back(data_read(raw.nodes[node], path.forms));
    part.from_arrays = part.from_arrays || part.data.back().kind == DataRead::Kind::Entry;
  }
  return part;
}

std::uint64_t append_elements(ProblemState& state, const MapElements& elements,
                              std::span<const Part> parts, std::span<const std::uint32_t> part_of,
                              const Appended& what, std::vector<std::uint64_t>* ids) {
  return Append(state, elements, parts, part_of, what).run(ids);
}

}  // namespace topograd::detail
