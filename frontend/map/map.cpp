// add_residuals: one trace for each shape of element and each path through its branches; rows are
// filled from columns.
#include "../problem/callables.hpp"
#include "../problem/classify.hpp"
#include "../repeatable.hpp"
#include "map_parts.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <utility>
#include <vector>

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
  if (count == 0) return {whole(state_).serial, first, first, 0};
  detail::Map map(whole(state_), count, options, kind);
  map.trace([&](Element element, std::vector<Value>& rows) { f.call(f.object, element, rows); });
  if (map.has_branches() && f.keep == nullptr) detail::fail_uncopied(call);
  // Calls to user code that may throw come before anything is appended.
  detail::RowsOfElement kept;
  if (map.has_branches()) kept = f.keep(f.object);
  map.append(whole(state_).labels.number(options.label),
             whole(state_).loss_entry("add_residuals", options.loss));
  if (map.has_branches()) map.keep(std::move(kept));
  return {whole(state_).serial, first, ledger.next_id, count};
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
