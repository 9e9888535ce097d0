// add_residuals: one trace for each shape of element and path through its branches, rows filled
// from columns.
#include <topograd/frontend/callables.hpp>
#include <topograd/frontend/map_elements.hpp>
#include <topograd/frontend/problem_state.hpp>

#include <tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace topograd {
namespace detail {
namespace {

constexpr std::uint32_t kNoColumn = ~std::uint32_t{0};

/// What a slot reads, in each element: entry base + width * indices[column], or base if there is no
/// column.
struct SlotRead {
  std::uint32_t column = kNoColumn;
  std::uint32_t base = 0;
  std::uint32_t width = 0;
};

/// What a data slot reads: an entry of the problem's data, the element's own number, or one number.
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
  bool from_arrays = false;  ///< some data are entries
};

using Forms = std::span<const AddressForm>;

SlotRead slot_read(const TapeNode& leaf, Forms forms) {
  if ((leaf.head & kSymbolic) == 0) return {kNoColumn, leaf.a, 0};
  const AddressForm& form = forms[leaf.a];
  return {form.column, form.entry(0), form.width};
}

DataRead data_read(const TapeNode& leaf, Forms forms) {
  const bool symbolic = (leaf.head & kSymbolic) != 0;
  if (symbolic && forms[leaf.a].direct)
    return {DataRead::Kind::Own, {forms[leaf.a].column, 0, 0}, 0};
  if (symbolic || (leaf.head & kBound) != 0)
    return {DataRead::Kind::Entry, slot_read(leaf, forms), 0};
  return {DataRead::Kind::Number, {}, number_of(leaf)};
}

/// A test whether two reads of unknowns meet: indices[first] + shift == indices[second], or == 0 if
/// there is no second column.
struct Meeting {
  std::uint32_t first, second;
  std::int64_t shift;
  friend bool operator==(const Meeting&, const Meeting&) = default;
};

/// The pairs of reads that meet in some elements only.
///
/// Arrays are disjoint and forms of one array have its width, so two forms can meet only if their
/// bases are equal, and do where their blocks are.
std::vector<Meeting> possible_meetings(std::span<const TapeNode> leaves, Forms read) {
  std::vector<AddressForm> forms;
  std::vector<std::uint32_t> fixed;
  for (const TapeNode& leaf : leaves) {
    if ((leaf.head & kSymbolic) != 0) {
      forms.push_back(read[leaf.a]);
    } else {
      fixed.push_back(leaf.a);
    }
  }
  std::vector<Meeting> meetings;
  const auto add = [&](const Meeting& m) {
    if (std::ranges::find(meetings, m) == meetings.end()) meetings.push_back(m);
  };
  for (std::size_t i = 0; i < forms.size(); ++i) {
    const AddressForm& f = forms[i];
    for (std::size_t j = 0; j < i; ++j)
      if (f.base == forms[j].base && f.column != forms[j].column)
        add({f.column, forms[j].column, f.shift - forms[j].shift});
    for (const std::uint32_t entry : fixed) {
      const std::int64_t distance = std::int64_t{entry} - f.base;
      if (distance >= 0 && distance < std::int64_t{f.blocks} * f.width && distance % f.width == 0)
        add({f.column, kNoColumn, f.shift - distance / f.width});
    }
  }
  return meetings;
}

/// One call of add_residuals.
class Map {
 public:
  Map(ProblemState& state, std::size_t count, const MapOptions& options, bool energy)
      : state_(state),
        energy_(energy),
        options_(options),
        caller_(state.caller(energy ? "add_energies" : "add_residuals", options.label, energy)),
        elements_(count, options, caller_) {}

  /// Runs the callable once for each shape of element and path that an element of it takes, and
  /// brings what it gives into canonical form.
  void trace(const RowsOfElement& call);
  bool has_branches() const { return has_branches_; }
  /// Appends the instances in the order of the elements.
  void append(std::uint32_t label, std::uint32_t loss);
  /// Keeps the callable and the columns, so that elements can be traced again.
  void keep(RowsOfElement call);

 private:
  TracedPath run(const RowsOfElement& call, std::size_t element, const ElementShape& shape);
  std::vector<std::size_t> take_holding(const TracedPath& path, std::vector<std::size_t>& left);
  void divide(std::span<const std::size_t> elements, const TracedPath& path);
  std::uint32_t add_part(std::size_t element, const TracedPath& path);
  bool meets(const Meeting& m, std::size_t element) const {
    const std::int64_t first = elements_.index(element, m.first) + m.shift;
    return first == (m.second == kNoColumn ? 0 : std::int64_t{elements_.index(element, m.second)});
  }
  std::uint32_t entry(const SlotRead& read, std::size_t element) const {
    if (read.column == kNoColumn) return read.base;
    return read.base + read.width * elements_.index(element, read.column);
  }
  void fill(const Part& part, std::size_t element, Row& row) const;
  void fill(const Part& part, std::size_t first_element, const ir::Batch::NewRows& rows) const;
  bool append_at_once(std::uint32_t group, std::uint32_t label, std::uint32_t loss);

  ProblemState& state_;
  bool energy_;
  const MapOptions& options_;
  Caller caller_;
  MapElements elements_;
  std::vector<Part> parts_;
  std::vector<std::uint32_t> part_of_;  // by element
  std::vector<ElementPaths> paths_;     // by shape of element
  std::vector<std::uint64_t> ids_;      // by element, once appended, if there are branches
  bool has_branches_ = false;
};

void Map::trace(const RowsOfElement& call) {
  part_of_.resize(elements_.size());
  for (ElementShape& shape : elements_.shapes()) {
    ElementPaths known;
    std::vector<std::size_t> left = std::move(shape.elements);
    while (!left.empty()) {
      const std::size_t first = left.front();
      caller_.number = state_.ledger(energy_).blocks + first;
      TracedPath path = run(call, left.front(), shape);
      ++state_.statistics.map_traces;
      if (energy_) check_energy(path.rows.size(), options_.loss, caller_);
      if (!known.paths.empty() && known.paths.front().rows.size() != path.rows.size())
        caller_.fail(ErrorCode::Shape, "expected " +
                                           std::to_string(known.paths.front().rows.size()) +
                                           " rows on every path through the callable, as element " +
                                           std::to_string(known.elements.front()) + " has, got " +
                                           std::to_string(path.rows.size()) + " for element " +
                                           std::to_string(first));
      caller_.number = state_.ledger(energy_).blocks;
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

/// Takes out those in which the branches go the way that they did for the first.
std::vector<std::size_t> Map::take_holding(const TracedPath& path, std::vector<std::size_t>& left) {
  if (path.branches.empty()) return std::exchange(left, {});
  std::vector<std::size_t> taken, rest;
  for (const std::size_t e : left) {
    const ElementNumbers numbers{path.forms, elements_.indices(e), elements_.data(e)};
    const bool same = taken.empty() || holds(path, state_, Point{}, &numbers);
    (same ? taken : rest).push_back(e);
  }
  left = std::move(rest);
  return taken;
}

/// Elements in which reads of unknowns meet in the same way share a part.
void Map::divide(std::span<const std::size_t> elements, const TracedPath& path) {
  std::vector<TapeNode> leaves;
  for (const TapeNode& node : path.nodes)
    if (node.op() == ir::Op::Parameter && node.b == state_.serial) leaves.push_back(node);
  const std::vector<Meeting> meetings = possible_meetings(leaves, path.forms);
  std::map<std::vector<bool>, std::uint32_t> part_of_pattern;
  std::uint32_t usual = kNoColumn;  // part of the elements in which nothing meets
  for (const std::size_t e : elements) {
    if (std::ranges::none_of(meetings, [&](const Meeting& m) { return meets(m, e); })) {
      if (usual == kNoColumn) usual = add_part(e, path);
      part_of_[e] = usual;
      continue;
    }
    std::vector<bool> pattern;
    for (const Meeting& m : meetings) pattern.push_back(meets(m, e));
    const auto known = part_of_pattern.find(pattern);
    part_of_[e] = known != part_of_pattern.end() ? known->second : add_part(e, path);
    part_of_pattern.emplace(std::move(pattern), part_of_[e]);
  }
}

std::uint32_t Map::add_part(std::size_t element, const TracedPath& path) {
  const auto index_of = [&](const TapeNode& leaf) {
    if ((leaf.head & kSymbolic) == 0) return leaf.a;
    return elements_.entry(path.forms[leaf.a], element);
  };
  std::vector<RawGuard> guards;
  for (const PathBranch& b : path.branches) guards.push_back({b.condition, b.taken});
  const RawTape raw{path.nodes, path.rows, guards};
  Extraction extraction = extract(raw, index_of, caller_);
  ++state_.statistics.canonical_forms;
  Part part{std::move(extraction.canonical), {}, {}, false};
  for (const auto* slots : {&extraction.leaves.parameters, &extraction.leaves.uniforms})
    for (const std::uint32_t node : *slots)
      part.indices.push_back(slot_read(raw.nodes[node], path.forms));
  for (const std::uint32_t node : extraction.leaves.data) {
    part.data.push_back(data_read(raw.nodes[node], path.forms));
    part.from_arrays = part.from_arrays || part.data.back().kind == DataRead::Kind::Entry;
  }
  parts_.push_back(std::move(part));
  return static_cast<std::uint32_t>(parts_.size() - 1);
}

void Map::fill(const Part& part, std::size_t element, Row& row) const {
  row.indices.clear();
  row.data.clear();
  row.sources.clear();
  for (const SlotRead& read : part.indices) row.indices.push_back(entry(read, element));
  for (const DataRead& read : part.data) {
    std::uint32_t source = kNoSource;
    switch (read.kind) {
      case DataRead::Kind::Entry:
        source = entry(read.entry, element);
        row.data.push_back(state_.data.numbers()[source]);
        break;
      case DataRead::Kind::Own:
        row.data.push_back(elements_.data(element, read.entry.column));
        break;
      case DataRead::Kind::Number: row.data.push_back(read.number); break;
    }
    if (part.from_arrays) row.sources.push_back(source);
  }
}

/// The same for the rows of one block and the elements from `first` on, column by column.
void Map::fill(const Part& part, std::size_t first, const ir::Batch::NewRows& rows) const {
  for (std::size_t c = 0; c < part.indices.size(); ++c) {
    std::uint32_t* column = rows.index + c * rows.stride;
    for (std::size_t i = 0; i < rows.count; ++i) column[i] = entry(part.indices[c], first + i);
  }
  for (std::size_t c = 0; c < part.data.size(); ++c) {
    const DataRead& read = part.data[c];
    double* column = rows.data + c * rows.stride;
    for (std::size_t i = 0; i < rows.count; ++i) {
      column[i] = read.kind == DataRead::Kind::Own ? elements_.data(first + i, read.entry.column)
                                                   : read.number;
    }
  }
}

/// Appends all elements, in parallel, where they are of one part and nothing else is kept of them.
bool Map::append_at_once(std::uint32_t group, std::uint32_t label, std::uint32_t loss) {
  const Part& part = parts_.front();
  if (parts_.size() > 1 || has_branches_ || part.from_arrays || !state_.takes_many(group, loss))
    return false;
  const std::uint64_t first_row = state_.ledger(energy_).rows;
  const std::uint32_t outputs = state_.groups[group].outputs();
  const std::vector<ir::Batch::NewRows> blocks = state_.append_many(group, elements_.size(), label);
  const std::size_t first = blocks.front().first;
  tbb::parallel_for(std::size_t{0}, blocks.size(), [&](std::size_t k) {
    const ir::Batch::NewRows& rows = blocks[k];
    fill(part, rows.first - first, rows);
    for (std::size_t i = 0; i < rows.count; ++i)
      rows.row[i] = first_row + (rows.first - first + i) * outputs;
  });
  return true;
}

void Map::append(std::uint32_t label, std::uint32_t loss) {
  const std::uint32_t program = state_.losses[loss].program;
  std::vector<std::uint32_t> groups;
  for (const Part& part : parts_)
    groups.push_back(state_.variant(state_.group_of(part.canonical, energy_, program), program));
  state_.statistics.map_blocks += elements_.size();
  if (append_at_once(groups.front(), label, loss)) return;
  for (std::size_t e = 0; e < elements_.size(); ++e) {
    fill(parts_[part_of_[e]], e, state_.row);
    const std::uint64_t id = state_.append(groups[part_of_[e]], state_.row, label, loss);
    if (has_branches_) ids_.push_back(id);
  }
}

void Map::keep(RowsOfElement call) {
  auto kept = std::make_unique<TracedMap>(std::move(call), options_, std::move(ids_));
  for (ElementPaths& paths : paths_) kept->add_shape(std::move(paths));
  const std::uint64_t first = kept->ids().front();
  state_.callables_of(energy_).maps.emplace(first, std::move(kept));
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
                           bool energy) {
  const detail::Ledger& ledger = state_->ledger(energy);
  const std::uint64_t first = ledger.next_id;
  if (count == 0) return {state_->serial, first, first, 0};
  detail::Map map(*state_, count, options, energy);
  map.trace([&](Element element, std::vector<Value>& rows) { f.call(f.object, element, rows); });
  if (map.has_branches() && f.keep == nullptr)
    detail::fail_uncopied(energy ? "add_energies" : "add_residuals");
  map.append(state_->label_number(options.label),
             state_->loss_entry("add_residuals", options.loss));
  if (map.has_branches()) map.keep(f.keep(f.object));
  return {state_->serial, first, ledger.next_id, count};
}

std::uint64_t Problem::add_callable(const RowsCallable& f, const ResidualOptions& options,
                                    bool energy) {
  detail::ProblemState& state = *state_;
  const detail::Point start;
  const detail::FinishResidual finish;
  detail::begin_segment();
  std::vector<Value> rows;
  {
    const detail::BranchScope scope(state, start, nullptr);
    f.call(f.object, rows);
  }
  const bool has_branches = !detail::open_branches().empty();
  if (has_branches && f.keep == nullptr)
    detail::fail_uncopied(energy ? "add_energy" : "add_residual");
  const std::uint64_t id = detail::trace_block(state, rows, options, energy);
  if (has_branches) state.callables_of(energy).singles.emplace(id, f.keep(f.object));
  return id;
}

}  // namespace topograd
