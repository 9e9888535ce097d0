// add_residuals: one trace for each shape of element and each path through its branches; rows are
// filled from columns.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../problem/callables.hpp"
#include "../problem/map_elements.hpp"
#include "../problem/problem_state.hpp"
#include "../traced_function.hpp"

namespace topograd::detail {

inline constexpr std::uint32_t kNoColumn = ~std::uint32_t{0};

/// The read of a slot in each element: entry base + width * indices[column], or base if there is no
/// column.
struct SlotRead {
  std::uint32_t column = kNoColumn;
  std::uint32_t base = 0;
  std::uint32_t width = 0;

  std::uint32_t entry(const MapElements& elements, std::size_t element) const {
    return column == kNoColumn ? base : base + width * elements.index(element, column);
  }
};

/// The read of a data slot: an entry of the problem's data, the element's number, or one number.
struct DataRead {
  enum class Kind { Entry, Own, Number } kind = Kind::Number;
  SlotRead entry = {};
  double number = 0;
};

/// Elements whose rows are instances of one topology.
struct Part {
  ir::Canonical canonical;
  std::vector<SlotRead> indices;  ///< parameter slots, then uniform slots
  std::vector<DataRead> data;
  bool from_arrays = false;  ///< true if some data are entries
};

/// The part of an element that took this path. Throws what extract() throws.
Part make_part(const MapElements& elements, std::size_t element, const TracedPath& path,
               const Caller& caller);

/// Properties that all instances appended by a map share.
struct Appended {
  BlockKind kind = BlockKind::residual;
  std::uint32_t label = 0;  ///< number in ProblemState::labels
  std::uint32_t loss = 0;   ///< entry in ProblemState::losses
};

/// Appends the elements as instances of their parts' topologies. The order is that of the elements,
/// for any number of threads. Returns the first id.
///
///   part_of  for each element
///   ids      if not null, receives the id of each element's instance
std::uint64_t append_elements(ProblemState& state, const MapElements& elements,
                              std::span<const Part> parts, std::span<const std::uint32_t> part_of,
                              const Appended& what, std::vector<std::uint64_t>* ids);

}  // namespace topograd::detail

namespace topograd {

namespace detail {
namespace {

/// A read of unknowns in an element: block indices[column] + shift of an array, or block `shift` if
/// there is no column.
struct BlockRead {
  std::uint32_t column;
  std::int64_t shift;
  friend auto operator<=>(const BlockRead&, const BlockRead&) = default;

  std::int64_t block(const MapElements& elements, std::size_t element) const {
    return shift + (column == kNoColumn ? 0 : std::int64_t{elements.index(element, column)});
  }
};

/// Reads that can refer to one unknown in some elements: those of one coordinate of an array.
using Meeting = std::vector<BlockRead>;

/// Arrays are disjoint and all forms of an array have its width, so two forms can meet only if
/// their bases are equal, and do where their blocks are. Coordinates with the same reads count
/// once.
std::vector<Meeting> possible_meetings(std::span<const TapeNode> leaves,
                                       std::span<const AddressForm> read) {
  std::map<std::uint32_t, Meeting> by_base;
  std::map<std::uint32_t, const AddressForm*> form_of;
  std::vector<std::uint32_t> fixed;
  for (const TapeNode& leaf : leaves) {
    if ((leaf.head & kSymbolic) == 0) {
      fixed.push_back(leaf.a);
      continue;
    }
    const AddressForm& form = read[leaf.a];
    by_base[form.base].push_back({form.column, form.shift});
    form_of.emplace(form.base, &form);
  }
  std::ranges::sort(fixed);
  std::vector<Meeting> meetings;
  for (auto& [base, reads] : by_base) {
    const AddressForm& form = *form_of[base];
    const std::uint64_t end = std::uint64_t{base} + std::uint64_t{form.blocks} * form.width;
    for (auto at = std::ranges::lower_bound(fixed, base); at != fixed.end() && *at < end; ++at)
      if ((*at - base) % form.width == 0) reads.push_back({kNoColumn, (*at - base) / form.width});
    std::ranges::sort(reads);
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    if (reads.size() > 1 && std::ranges::find(meetings, reads) == meetings.end())
      meetings.push_back(std::move(reads));
  }
  return meetings;
}

/// One call of add_residuals.
class Map {
 public:
  Map(ProblemState& state, std::size_t count, const MapOptions& options, BlockKind kind)
      : state_(state),
        kind_(kind),
        options_(options),
        caller_(state.caller(add_call(kind, true), options.label, kind)),
        elements_(count, options, caller_) {}

  /// Runs the callable once for each shape of element and each path of its elements, and brings the
  /// results into canonical form.
  void trace(const RowsOfElement& call);
  bool has_branches() const { return has_branches_; }
  /// Appends the instances in the order of the elements.
  void append(std::uint32_t label, std::uint32_t loss);
  /// Stores the callable and the columns, so that elements can be traced again.
  void keep(RowsOfElement call);

 private:
  TracedPath run(const RowsOfElement& call, std::size_t element, const ElementShape& shape);
  void refuse_memory(const TracedPath& first, const TracedPath& second) const;
  std::vector<std::size_t> take_holding(const TracedPath& path, std::vector<std::size_t>& left);
  void divide(std::span<const std::size_t> elements, const TracedPath& path);
  void find_meetings(const Meeting& meeting, std::size_t element,
                     std::vector<std::uint32_t>& pattern) const;

  ProblemState& state_;
  BlockKind kind_;
  const MapOptions& options_;
  Caller caller_;
  MapElements elements_;
  std::vector<Part> parts_;
  std::vector<std::uint32_t> part_of_;  // for each element
  std::vector<ElementPaths> paths_;     // for each shape of element
  std::vector<std::uint64_t> ids_;      // for each element, after appending, if there are branches
  bool has_branches_ = false;
};

void Map::trace(const RowsOfElement& call) {
  part_of_.resize(elements_.size());
  for (ElementShape& shape : elements_.shapes()) {
    ElementPaths known;
    std::vector<std::size_t> left = std::move(shape.elements);
    while (!left.empty()) {
      const std::size_t first = left.front();
      caller_.number = state_.blocks.ledger(kind_).blocks + first;
      TracedPath path = run(call, left.front(), shape);
      ++state_.statistics.map_traces;
      if (left.size() > 1) {
        TracedPath again = run(call, left.front(), shape);
        refuse_memory(path, again);
        path = std::move(again);  // with the serial of the map that caller_ names
      }
      check_block(path.rows.size(), options_.loss, caller_);
      if (!known.paths.empty() && known.paths.front().rows.size() != path.rows.size())
        caller_.fail(ErrorCode::Shape, "expected " +
                                           std::to_string(known.paths.front().rows.size()) +
                                           " rows on every path through the callable, as element " +
                                           std::to_string(known.elements.front()) + " has, got " +
                                           std::to_string(path.rows.size()) + " for element " +
                                           std::to_string(first));
      caller_.number = state_.blocks.ledger(kind_).blocks;
      const std::vector<std::size_t> taken = take_holding(path, left);
      elements_.check_ranges(path.forms, taken, caller_);
      divide(taken, path);
      has_branches_ = has_branches_ || !path.branches.empty();
      known.elements.insert(known.elements.end(), taken.begin(), taken.end());
      known.path_of.resize(known.elements.size(), static_cast<std::uint32_t>(known.paths.size()));
      known.paths.push_back(std::move(path));
    }
    paths_.push_back(std::move(known));
  }
}

TracedPath Map::run(const RowsOfElement& call, std::size_t element, const ElementShape& shape) {
  MapTrace trace{state_.serial, next_serial(), shape.valence, shape.data_count, {}};
  caller_.map = trace.serial;
  return trace_element(call, state_, trace, Point{}, elements_.indices(element),
                       elements_.data(element), {}, caller_);
}

/// Detects a callable that counts its calls or draws random numbers. Such a callable expects one
/// call per element, which does not happen.
void Map::refuse_memory(const TracedPath& first, const TracedPath& second) const {
  const auto same = [](const TapeNode& a, const TapeNode& b) {
    const bool symbolic = (a.head & kSymbolic) != 0;  // then c is the serial of the run
    return a.head == b.head && a.a == b.a && a.b == b.b && (symbolic || a.c == b.c);
  };
  const auto differs = std::ranges::mismatch(first.nodes, second.nodes, same);
  const bool equal = differs.in1 == first.nodes.end() && differs.in2 == second.nodes.end() &&
                     first.rows == second.rows && same_branches(first, second);
  if (equal) return;
  std::optional<std::pair<double, double>> numbers;
  if (differs.in1 != first.nodes.end() && differs.in2 != second.nodes.end() &&
      differs.in1->head == differs.in2->head &&
      (differs.in1->head == head(ir::Op::Data) || differs.in1->head == head(ir::Op::Literal)))
    numbers = {number_of(*differs.in1), number_of(*differs.in2)};
  caller_.fail(
      ErrorCode::InvalidArgument,
      not_repeatable({.one = "an element",
                      .all = "all elements",
                      .advice = "give each element's numbers in MapOptions::data and read them by "
                                "e.data(k), its indices in MapOptions::indices, by e.index(k)"},
                     numbers));
}

/// Removes and returns the elements whose branches have the same results as in `path`.
std::vector<std::size_t> Map::take_holding(const TracedPath& path, std::vector<std::size_t>& left) {
  if (path.branches.empty()) return std::exchange(left, {});
  const PathConditions conditions(path, path.branches.size());
  std::vector<std::uint8_t> same(left.size());
  for_pieces(left.size(), kPieceOfElements, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      const ElementNumbers numbers{path.forms, elements_.indices(left[k]), elements_.data(left[k])};
      same[k] = k == 0 || conditions.hold(state_, Point{}, &numbers) ? 1 : 0;
    }
  });
  std::vector<std::size_t> taken, rest;
  const auto count = static_cast<std::size_t>(std::count(same.begin(), same.end(), 1));
  taken.reserve(count);
  rest.reserve(left.size() - count);
  for (std::size_t k = 0; k < left.size(); ++k) (same[k] != 0 ? taken : rest).push_back(left[k]);
  left = std::move(rest);
  return taken;
}

/// For each read whose block an earlier read has, appends the numbers of both.
void Map::find_meetings(const Meeting& meeting, std::size_t element,
                        std::vector<std::uint32_t>& pattern) const {
  thread_local std::vector<std::pair<std::int64_t, std::uint32_t>> blocks;
  blocks.clear();
  for (std::uint32_t k = 0; k < meeting.size(); ++k)
    blocks.emplace_back(meeting[k].block(elements_, element), k);
  std::ranges::sort(blocks);
  for (std::size_t k = 1; k < blocks.size(); ++k)
    if (blocks[k].first == blocks[k - 1].first)
      pattern.insert(pattern.end(), {blocks[k - 1].second, blocks[k].second});
  pattern.push_back(kNoColumn);  // marks the end of the meeting
}

/// Divides elements into parts: those in which reads of unknowns meet in the same way share one.
void Map::divide(std::span<const std::size_t> elements, const TracedPath& path) {
  std::vector<TapeNode> leaves;
  for (const TapeNode& node : path.nodes)
    if (node.op() == ir::Op::Parameter && node.b == state_.serial) leaves.push_back(node);
  const std::vector<Meeting> meetings = possible_meetings(leaves, path.forms);
  const auto before = static_cast<std::uint32_t>(parts_.size());
  const std::vector<std::size_t> first = classify<std::vector<std::uint32_t>>(
      elements.size(),
      [&](std::size_t k, std::vector<std::uint32_t>& pattern) {
        pattern.clear();
        for (const Meeting& meeting : meetings) find_meetings(meeting, elements[k], pattern);
      },
      [&](std::size_t k) -> std::uint32_t& { return part_of_[elements[k]]; });
  for (const std::size_t k : first) {
    parts_.push_back(make_part(elements_, elements[k], path, caller_));
    ++state_.statistics.canonical_forms;
  }
  if (before == 0) return;
  for_pieces(elements.size(), kPieceOfElements,
             [&](std::size_t, std::size_t begin, std::size_t end) {
               for (std::size_t k = begin; k < end; ++k) part_of_[elements[k]] += before;
             });
}

void Map::append(std::uint32_t label, std::uint32_t loss) {
  state_.statistics.map_blocks += elements_.size();
  append_elements(state_, elements_, parts_, part_of_, {kind_, label, loss},
                  has_branches_ ? &ids_ : nullptr);
}

void Map::keep(RowsOfElement call) {
  auto kept = std::make_unique<TracedMap>(std::move(call), options_, std::move(ids_));
  for (ElementPaths& paths : paths_) kept->add_shape(std::move(paths));
  const std::uint64_t first = kept->ids().front();
  state_.callables_of(kind_).maps.emplace(first, std::move(kept));
}

[[noreturn]] void fail_uncopied(const char* call) {
  throw Error(ErrorCode::Unsupported,
              std::string(call) +
                  ": a callable with branches is kept, to be called again where they change; "
                  "expected one that can be copied");
}

}  // namespace
}  // namespace detail

Residuals Problem::add_map(std::size_t count, const Callable& f, const MapOptions& options,
                           BlockKind kind) {
  const char* call = add_call(kind, true);
  const detail::Ledger& ledger = changing(state_, call).blocks.ledger(kind);
  const std::uint64_t first = ledger.next_id;
  if (count == 0) return {require_not_moved_from(state_).serial, first, first, 0};
  detail::Map map(require_not_moved_from(state_), count, options, kind);
  map.trace([&](Element element, std::vector<Value>& rows) { f.call(f.object, element, rows); });
  if (map.has_branches() && f.keep == nullptr) detail::fail_uncopied(call);
  // Calls to user code that may throw come before anything is appended.
  detail::RowsOfElement kept;
  if (map.has_branches()) kept = f.keep(f.object);
  map.append(require_not_moved_from(state_).labels.number(options.label),
             require_not_moved_from(state_).loss_entry("add_residuals", options.loss));
  if (map.has_branches()) map.keep(std::move(kept));
  return {require_not_moved_from(state_).serial, first, ledger.next_id, count};
}

std::uint64_t Problem::add_callable(const RowsCallable& f, const ResidualOptions& options,
                                    BlockKind kind) {
  detail::ProblemState& state = changing(state_, add_call(kind));
  const detail::Point start;
  const detail::FinishResidual finish;
  detail::begin_segment();
  std::vector<Value> rows;
  {
    const detail::BranchScope scope(state, start, nullptr);
    f.call(f.object, rows);
  }
  const bool has_branches = !detail::open_branches().empty();
  if (has_branches && f.keep == nullptr) detail::fail_uncopied(add_call(kind));
  detail::check_block(rows.size(), options.loss, state.caller(add_call(kind), options.label, kind));
  const std::uint64_t id = detail::trace_block(state, rows, options, kind);
  if (has_branches) state.callables_of(kind).singles.emplace(id, f.keep(f.object));
  return id;
}

}  // namespace topograd

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
