// Divides programs into what comes before a loop, one step of it, and what comes after.
#include "rolled_program.hpp"

#include "rolled_sweep.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace topograd::autodiff {
namespace {

using ir::Id;
using ir::Op;

/// Steps back from which a step reads.
constexpr std::uint32_t kMostAge = 8;

/// A number of an earlier step: of the item `item`, `age` steps ago.
struct State {
  std::uint32_t item = 0, age = 0;
  auto operator<=>(const State&) const = default;
};

/// Collects the nodes of one part.
class PartGraph {
 public:
  explicit PartGraph(const ir::Program& f) : f_(f), map_(f.nodes.size(), ir::kNone) {}

  Id parameter(std::uint32_t slot) { return graph_.leaf(Op::Parameter, slot); }
  Id literal(double value) { return graph_.literal(value); }
  /// The data slot that step k reads at first + k * step.
  Id data(RolledProgram::Datum datum) {
    const auto found = std::ranges::find(data_, datum);
    const auto slot = static_cast<std::uint32_t>(found - data_.begin());
    if (found == data_.end()) data_.push_back(datum);
    return graph_.leaf(Op::Data, slot);
  }
  bool has(Id id) const { return map_[id] != ir::kNone; }
  Id at(Id id) const { return map_[id]; }
  void set(Id id, Id to) { map_[id] = to; }
  /// Copies a node whose operands are there. Data slots are those of all steps.
  void copy(Id id) {
    const ir::Node& node = f_.nodes[id];
    map_[id] = node.op == Op::Data ? data({node.slot(), 0}) : graph_.copy(node, map_);
  }
  Id add(Op op, std::span<const Id> operands) {
    return graph_.add(op, operands[0], operands.size() > 1 ? operands[1] : 0,
                      operands.size() > 2 ? operands[2] : 0);
  }
  RolledProgram::Part take(std::span<const Id> outputs, std::size_t rows,
                           std::uint32_t parameters) {
    const ir::LeafCounts leaves{.parameters = parameters,
                                .data = static_cast<std::uint32_t>(data_.size()),
                                .uniforms = f_.leaves.uniforms};
    return {graph_.extract(outputs, leaves), std::move(data_), rows};
  }

 private:
  const ir::Program& f_;
  ir::Graph graph_;
  std::vector<Id> map_;
  std::vector<RolledProgram::Datum> data_;
};

class Roller {
 public:
  Roller(const ir::Program& f, const RepeatedNodes& loop)
      : f_(f), loop_(loop), end_(loop.first + loop.period * loop.count) {}

  std::optional<RolledProgram> run() {
    if (!read_step() || !read_rows() || !read_end()) return std::nullopt;
    number_states();
    RolledProgram out;
    out.steps = loop_.count;
    out.states = static_cast<std::uint32_t>(states_.size());
    out.constants = static_cast<std::uint32_t>(constants_.size());
    out.before = make_before();
    out.step = make_step();
    out.after = make_after();
    return out;
  }

 private:
  /// An operand of an item.
  struct Source {
    enum class Kind : std::uint8_t { here, earlier, leaf, data, constant } kind = Kind::here;
    std::uint32_t item = 0, age = 0;
    Id id = 0;
    std::int32_t step = 0;  ///< of data
  };

  bool is_inside(Id id) const { return id >= loop_.first && id < end_; }

  /// The leaf `id`, or the data slots that the leaves id, id + stride, ... read.
  std::optional<Source> leaf(Id id, std::int64_t stride) const {
    const ir::Node& node = f_.nodes[id];
    if (stride == 0) return Source{.kind = Source::Kind::leaf, .id = id};
    if (node.op != Op::Data) return std::nullopt;
    const auto slot = [&](std::uint32_t k) -> std::optional<std::int64_t> {
      const std::int64_t other = std::int64_t{id} + stride * k;
      if (other < 0 || other >= std::ssize(f_.nodes)) return std::nullopt;
      const ir::Node& n = f_.nodes[static_cast<std::size_t>(other)];
      return n.op == Op::Data ? std::optional<std::int64_t>(n.slot()) : std::nullopt;
    };
    const std::optional<std::int64_t> second = slot(1);
    if (!second) return std::nullopt;
    const std::int64_t step = *second - node.slot();
    for (std::uint32_t k = 2; k < loop_.count; ++k)
      if (slot(k) != node.slot() + step * k) return std::nullopt;
    return Source{.kind = Source::Kind::data, .id = id, .step = static_cast<std::int32_t>(step)};
  }

  std::optional<Source> source(std::uint32_t item, std::size_t operand) {
    const Id first = f_.nodes[loop_.first + item].args[operand];
    const Id second = f_.nodes[loop_.first + loop_.period + item].args[operand];
    const std::int64_t stride = std::int64_t{second} - first;
    if (stride == loop_.period) {
      const std::int64_t from = std::int64_t{first} - loop_.first;
      if (from >= 0)
        return Source{.kind = Source::Kind::here, .item = static_cast<std::uint32_t>(from)};
      const std::int64_t age = (-from + loop_.period - 1) / loop_.period;
      if (age > kMostAge || age > loop_.count) return std::nullopt;
      return Source{.kind = Source::Kind::earlier,
                    .item = static_cast<std::uint32_t>(from + age * loop_.period),
                    .age = static_cast<std::uint32_t>(age)};
    }
    if (ir::is_leaf(f_.nodes[first].op) || f_.nodes[first].op == Op::Literal)
      return leaf(first, stride);
    if (stride != 0 || first >= loop_.first) return std::nullopt;
    return Source{.kind = Source::Kind::constant, .id = first};
  }

  /// Finds what the items read, and the states that this needs. False if there is no loop.
  bool read_step() {
    for (std::uint32_t item = 0; item < loop_.period; ++item) {
      const ir::Node& node = f_.nodes[loop_.first + item];
      sources_.emplace_back();
      if (node.op == Op::Literal) return false;
      if (ir::is_leaf(node.op)) {
        const std::optional<Source> own = leaf(loop_.first + item, loop_.period);
        if (!own) return false;
        sources_.back().push_back(*own);
        continue;
      }
      for (std::size_t k = 0; k < node.operands().size(); ++k) {
        const std::optional<Source> from = source(item, k);
        if (!from) return false;
        if (from->kind == Source::Kind::earlier && !keep(from->item, from->age, true)) return false;
        if (from->kind == Source::Kind::constant) constants_.try_emplace(from->id, 0);
        sources_.back().push_back(*from);
      }
    }
    return true;
  }

  /// Adds an item's number of so many steps ago to the states; steps read it if `begins`.
  bool keep(std::uint32_t item, std::uint32_t age, bool begins) {
    for (std::uint32_t a = 1; a <= age; ++a) {
      if (begins && std::int64_t{loop_.first} + item < std::int64_t{a} * loop_.period) return false;
      states_[{item, a}].begins |= begins;
    }
    return true;
  }

  /// Divides the rows. False if steps have different ones.
  bool read_rows() {
    std::vector<std::vector<std::uint32_t>> steps_of(loop_.period);
    for (const Id row : f_.outputs)
      if (is_inside(row))
        steps_of[(row - loop_.first) % loop_.period].push_back((row - loop_.first) / loop_.period);
    std::vector<std::uint8_t> of_step(loop_.period);
    for (std::uint32_t item = 0; item < loop_.period; ++item) {
      std::vector<std::uint32_t>& steps = steps_of[item];
      std::ranges::sort(steps);
      const bool each =
          steps.size() == loop_.count && std::ranges::adjacent_find(steps) == steps.end();
      of_step[item] = each;
      if (each) step_rows_.push_back(item);
    }
    for (const Id row : f_.outputs) {
      if (row < loop_.first) {
        before_rows_.push_back(row);
      } else if (!is_inside(row)) {
        after_rows_.push_back(row);
      } else if (of_step[(row - loop_.first) % loop_.period] == 0) {
        if (!keep_last(row)) return false;
        after_rows_.push_back(row);
      }
    }
    return true;
  }

  std::uint32_t age_at_end(Id id) const { return loop_.count - (id - loop_.first) / loop_.period; }
  std::uint32_t item_of(Id id) const { return (id - loop_.first) % loop_.period; }
  /// Keeps a number of one of the last steps.
  bool keep_last(Id id) {
    return age_at_end(id) <= kMostAge && keep(item_of(id), age_at_end(id), false);
  }

  /// Keeps what is read after the loop. False if that are numbers of other than the last steps.
  bool read_end() {
    for (std::size_t id = end_; id < f_.nodes.size(); ++id)
      for (const Id from : f_.nodes[id].operands())
        if (is_inside(from) && !keep_last(from)) return false;
    return true;
  }

  void number_states() {
    std::uint32_t next = f_.leaves.parameters;
    for (auto& [state, kept] : states_) kept.slot = next++;
    for (auto& [id, slot] : constants_) slot = next++;
  }
  std::uint32_t parameters() const {
    return f_.leaves.parameters + static_cast<std::uint32_t>(states_.size() + constants_.size());
  }

  RolledProgram::Part make_before() const {
    PartGraph part(f_);
    for (Id id = 0; id < loop_.first; ++id) part.copy(id);
    std::vector<Id> outputs;
    for (const Id row : before_rows_) outputs.push_back(part.at(row));
    for (const auto& [state, kept] : states_)
      outputs.push_back(kept.begins ? part.at(loop_.first + state.item - state.age * loop_.period)
                                    : part.literal(0));
    for (const auto& [id, slot] : constants_) outputs.push_back(part.at(id));
    return part.take(outputs, before_rows_.size(), f_.leaves.parameters);
  }

  Id read(PartGraph& part, const Source& from) const {
    switch (from.kind) {
      case Source::Kind::here: return part.at(loop_.first + from.item);
      case Source::Kind::earlier: return part.parameter(states_.at({from.item, from.age}).slot);
      case Source::Kind::constant: return part.parameter(constants_.at(from.id));
      case Source::Kind::data: return part.data({f_.nodes[from.id].slot(), from.step});
      case Source::Kind::leaf: break;
    }
    if (!part.has(from.id)) part.copy(from.id);
    return part.at(from.id);
  }

  RolledProgram::Part make_step() const {
    PartGraph part(f_);
    for (std::uint32_t item = 0; item < loop_.period; ++item) {
      const ir::Node& node = f_.nodes[loop_.first + item];
      std::vector<Id> operands;
      for (const Source& from : sources_[item]) operands.push_back(read(part, from));
      part.set(loop_.first + item,
               ir::is_leaf(node.op) ? operands[0] : part.add(node.op, operands));
    }
    std::vector<Id> outputs;
    for (const std::uint32_t item : step_rows_) outputs.push_back(part.at(loop_.first + item));
    for (const auto& [state, kept] : states_)
      outputs.push_back(state.age == 1
                            ? part.at(loop_.first + state.item)
                            : part.parameter(states_.at({state.item, state.age - 1}).slot));
    return part.take(outputs, step_rows_.size(), parameters());
  }

  RolledProgram::Part make_after() const {
    PartGraph part(f_);
    const auto last = [&](Id id) {
      return part.parameter(states_.at({item_of(id), age_at_end(id)}).slot);
    };
    std::vector<std::uint8_t> needed(f_.nodes.size());
    for (const Id row : after_rows_) needed[row] = 1;
    for (std::size_t id = f_.nodes.size(); id-- > 0;)
      if (needed[id] != 0 && !is_inside(static_cast<Id>(id)))
        for (const Id from : f_.nodes[id].operands()) needed[from] = 1;
    for (Id id = 0; id < f_.nodes.size(); ++id) {
      if (needed[id] == 0) continue;
      if (is_inside(id)) {
        part.set(id, last(id));
      } else {
        part.copy(id);
      }
    }
    std::vector<Id> outputs;
    for (const Id row : after_rows_) outputs.push_back(part.at(row));
    return part.take(outputs, after_rows_.size(), parameters());
  }

  struct Kept {
    bool begins = false;  ///< a step reads it
    std::uint32_t slot = 0;
  };

  const ir::Program& f_;
  const RepeatedNodes loop_;
  const Id end_;
  std::vector<std::vector<Source>> sources_;  // by item: its operands, or the leaf itself
  std::map<State, Kept> states_;
  std::map<Id, std::uint32_t> constants_;  // to their parameter slots
  std::vector<Id> before_rows_, after_rows_;
  std::vector<std::uint32_t> step_rows_;  // items
};

}  // namespace

std::optional<RolledProgram> roll(const ir::Program& f) {
  if (!f.guards.empty()) return std::nullopt;
  RepeatedNodes best;
  std::size_t most = 0;
  for (const RepeatedNodes& loop : find_repetitions(f)) {
    const std::size_t nodes = std::size_t{loop.period} * loop.count;
    if (nodes > most) best = loop, most = nodes;
  }
  if (most <= f.nodes.size() / 2) return std::nullopt;
  return Roller(f, best).run();
}

}  // namespace topograd::autodiff
