// add_residuals: one trace for each shape of element, rows filled from columns.
#include <topograd/frontend/map_elements.hpp>
#include <topograd/frontend/problem_state.hpp>

#include <algorithm>
#include <map>
#include <tuple>

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

SlotRead slot_read(const TapeNode& leaf, const MapTrace& trace) {
  if ((leaf.head & kSymbolic) == 0) return {kNoColumn, leaf.a, 0};
  const AddressForm& form = trace.forms[leaf.a];
  return {form.column, form.entry(0), form.width};
}

DataRead data_read(const TapeNode& leaf, const MapTrace& trace) {
  const bool symbolic = (leaf.head & kSymbolic) != 0;
  if (symbolic && trace.forms[leaf.a].direct)
    return {DataRead::Kind::Own, {trace.forms[leaf.a].column, 0, 0}, 0};
  if (symbolic || (leaf.head & kBound) != 0)
    return {DataRead::Kind::Entry, slot_read(leaf, trace), 0};
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
std::vector<Meeting> possible_meetings(std::span<const TapeNode> leaves, const MapTrace& trace) {
  std::vector<AddressForm> forms;
  std::vector<std::uint32_t> fixed;
  for (const TapeNode& leaf : leaves) {
    if ((leaf.head & kSymbolic) != 0) {
      forms.push_back(trace.forms[leaf.a]);
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
        caller_(state.caller(energy ? "add_energies" : "add_residuals", options.label, energy)),
        elements_(count, options, caller_) {}

  /// Runs the callable once for each shape of element and brings what it gives into canonical form.
  template <class Call>
  void trace(const Loss& loss, const Call& call);
  /// Appends the instances in the order of the elements.
  void append(std::uint32_t label, std::uint32_t loss);

 private:
  void divide(const ElementShape& shape, const MapTrace& trace);
  std::uint32_t add_part(std::size_t element, const MapTrace& trace);
  bool meets(const Meeting& m, std::size_t element) const {
    const std::int64_t first = elements_.index(element, m.first) + m.shift;
    return first == (m.second == kNoColumn ? 0 : std::int64_t{elements_.index(element, m.second)});
  }
  void fill(const Part& part, std::size_t element, Row& row) const;

  ProblemState& state_;
  bool energy_;
  Caller caller_;
  MapElements elements_;
  CompactTape tape_;
  std::vector<Part> parts_;
  std::vector<std::uint32_t> part_of_;  // by element
};

template <class Call>
void Map::trace(const Loss& loss, const Call& call) {
  part_of_.resize(elements_.size());
  for (const ElementShape& shape : elements_.shapes()) {
    const FinishResidual finish;
    MapTrace trace{state_.serial, next_serial(), shape.valence, shape.data_count, {}};
    caller_.map = trace.serial;
    caller_.number = state_.ledger(energy_).blocks + shape.elements.front();
    std::vector<Value> rows;
    call(Element(trace), rows);
    tape_.assign(row_nodes(rows, caller_));
    if (energy_) check_energy(rows.size(), loss, caller_);
    caller_.number = state_.ledger(energy_).blocks;
    elements_.check_ranges(trace, shape, caller_);
    divide(shape, trace);
    ++state_.statistics.map_traces;
  }
}

/// Elements in which reads of unknowns meet in the same way share a part.
void Map::divide(const ElementShape& shape, const MapTrace& trace) {
  std::vector<TapeNode> leaves;
  for (const TapeNode& node : tape_.view().nodes)
    if (node.op() == ir::Op::Parameter && node.b == state_.serial) leaves.push_back(node);
  const std::vector<Meeting> meetings = possible_meetings(leaves, trace);
  std::map<std::vector<bool>, std::uint32_t> part_of_pattern;
  std::uint32_t usual = kNoColumn;  // part of the elements in which nothing meets
  for (const std::size_t e : shape.elements) {
    if (std::ranges::none_of(meetings, [&](const Meeting& m) { return meets(m, e); })) {
      if (usual == kNoColumn) usual = add_part(e, trace);
      part_of_[e] = usual;
      continue;
    }
    std::vector<bool> pattern;
    for (const Meeting& m : meetings) pattern.push_back(meets(m, e));
    const auto known = part_of_pattern.find(pattern);
    part_of_[e] = known != part_of_pattern.end() ? known->second : add_part(e, trace);
    part_of_pattern.emplace(std::move(pattern), part_of_[e]);
  }
}

std::uint32_t Map::add_part(std::size_t element, const MapTrace& trace) {
  const auto index_of = [&](const TapeNode& leaf) {
    if ((leaf.head & kSymbolic) == 0) return leaf.a;
    return elements_.entry(trace.forms[leaf.a], element);
  };
  const RawTape raw = tape_.view();
  Extraction extraction = extract(raw, index_of, caller_);
  ++state_.statistics.canonical_forms;
  Part part{std::move(extraction.canonical), {}, {}, false};
  for (const auto* slots : {&extraction.leaves.parameters, &extraction.leaves.uniforms})
    for (const std::uint32_t node : *slots)
      part.indices.push_back(slot_read(raw.nodes[node], trace));
  for (const std::uint32_t node : extraction.leaves.data) {
    part.data.push_back(data_read(raw.nodes[node], trace));
    part.from_arrays = part.from_arrays || part.data.back().kind == DataRead::Kind::Entry;
  }
  parts_.push_back(std::move(part));
  return static_cast<std::uint32_t>(parts_.size() - 1);
}

void Map::fill(const Part& part, std::size_t element, Row& row) const {
  const auto entry = [&](const SlotRead& read) {
    if (read.column == kNoColumn) return read.base;
    return read.base + read.width * elements_.index(element, read.column);
  };
  row.indices.clear();
  row.data.clear();
  row.sources.clear();
  for (const SlotRead& read : part.indices) row.indices.push_back(entry(read));
  for (const DataRead& read : part.data) {
    std::uint32_t source = kNoSource;
    switch (read.kind) {
      case DataRead::Kind::Entry:
        source = entry(read.entry);
        row.data.push_back(state_.data[source]);
        break;
      case DataRead::Kind::Own:
        row.data.push_back(elements_.data(element, read.entry.column));
        break;
      case DataRead::Kind::Number: row.data.push_back(read.number); break;
    }
    if (part.from_arrays) row.sources.push_back(source);
  }
}

void Map::append(std::uint32_t label, std::uint32_t loss) {
  const std::uint32_t program = state_.losses[loss].program;
  std::vector<std::uint32_t> groups;
  for (const Part& part : parts_)
    groups.push_back(state_.variant(state_.group_of(part.canonical, energy_, program), program));
  for (std::size_t e = 0; e < elements_.size(); ++e) {
    fill(parts_[part_of_[e]], e, state_.row);
    state_.append(groups[part_of_[e]], state_.row, label, loss);
  }
  state_.statistics.map_blocks += elements_.size();
}

}  // namespace
}  // namespace detail

Residuals Problem::add_map(std::size_t count, const Callable& f, const MapOptions& options,
                           bool energy) {
  const detail::Ledger& ledger = state_->ledger(energy);
  const std::uint64_t first = ledger.next_id;
  if (count == 0) return {state_->serial, first, first, 0};
  detail::Map map(*state_, count, options, energy);
  map.trace(options.loss,
            [&](Element element, std::vector<Value>& rows) { f.call(f.object, element, rows); });
  map.append(state_->label_number(options.label),
             state_->loss_entry("add_residuals", options.loss));
  return {state_->serial, first, ledger.next_id, count};
}

}  // namespace topograd
