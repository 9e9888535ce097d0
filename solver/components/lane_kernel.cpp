// Programs of residual blocks that add to sums of their components.
#include "lane_kernel.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../autodiff/kinks.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/program.hpp"
#include "../../runtime/plan/passes.hpp"

#include <algorithm>
#include <utility>

namespace topograd {
namespace {

using ir::Id;
using ir::Op;

std::uint32_t parameters_of(const ComponentKernel& of) {
  return static_cast<std::uint32_t>(of.free.size());
}

std::vector<std::uint32_t> free_of(const ComponentKernel& of) {
  std::vector<std::uint32_t> free;
  for (std::uint32_t p = 0; p < of.free.size(); ++p)
    if (of.free[p] != 0) free.push_back(p);
  return free;
}

/// Builds programs whose leaves are data alone.
class Builder {
 public:
  explicit Builder(const ComponentKernel& of) : Builder(of, of.term->topology->program.leaves) {}
  /// For a part of the term's program, which has these leaves: parameters beyond those of the term
  /// are given.
  Builder(const ComponentKernel& of, const ir::LeafCounts& leaves) : of_(of), leaves_(leaves) {}

  std::uint32_t first_parameter() const { return leaves_.data + leaves_.uniforms; }
  std::uint32_t first_target() const { return first_parameter() + parameters_of(of_); }

  /// Appends a program over the term's slots, and `more` beyond them; returns its outputs.
  std::vector<Id> append(const ir::Program& program, std::span<const Id> more = {}) {
    std::vector<Id> map(program.nodes.size());
    for (Id id = 0; id < program.nodes.size(); ++id) {
      const ir::Node& node = program.nodes[id];
      const std::size_t slots = of_.parameter_of_slot.size();
      if (node.op == Op::Parameter && node.slot() >= slots) {
        map[id] = more[node.slot() - slots];
      } else if (node.op == Op::Parameter) {
        map[id] = graph_.leaf(Op::Data, first_parameter() + of_.parameter_of_slot[node.slot()]);
      } else if (node.op == Op::Uniform) {
        map[id] = graph_.leaf(Op::Data, leaves_.data + node.slot());
      } else {
        map[id] = graph_.copy(node, map);
      }
    }
    std::vector<Id> outputs;
    for (const Id id : program.outputs) outputs.push_back(map[id]);
    return outputs;
  }

  Id target(std::uint32_t number) { return graph_.leaf(Op::Data, first_target() + number); }
  /// sum + a b.
  Id add_product(Id sum, Id a, Id b) { return graph_.add(Op::Add, product(a, b), sum); }
  Id product(Id a, Id b) { return a == b ? graph_.add(Op::Square, a) : graph_.add(Op::Mul, a, b); }
  Id add(Id a, Id b) { return graph_.add(Op::Add, a, b); }
  Id literal(double value) { return graph_.literal(value); }
  bool is_zero(Id id) const { return graph_[id].op == Op::Literal && graph_[id].literal() == 0; }
  /// a + b, where literal zeros are left out.
  Id total(Id a, Id b) { return is_zero(a) ? b : is_zero(b) ? a : add(a, b); }
  ir::Program take(const std::vector<Id>& outputs, std::uint32_t targets) const {
    const ir::LeafCounts leaves{.data = first_target() + targets};
    return ir::optimize(graph_.extract(outputs, leaves));
  }

 private:
  const ComponentKernel& of_;
  const ir::LeafCounts leaves_;
  ir::Graph graph_;
};

/// The rows and the Jacobian of a term over some slots.
ir::Program rows_of(const runtime::Term& term, const std::vector<std::uint32_t>& slots) {
  const ir::Program& f = term.topology->program;
  return term.loss == nullptr ? autodiff::residual_and_jacobian(f, slots)
                              : autodiff::residual_and_jacobian({f, *term.loss}, slots);
}

std::vector<std::uint32_t> free_slots(const ComponentKernel& of) {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t s = 0; s < of.parameter_of_slot.size(); ++s)
    if (of.free[of.parameter_of_slot[s]] != 0) slots.push_back(s);
  return slots;
}

/// r, then J by free parameter, where slots of one scalar are added.
std::vector<Id> build_rows(Builder& builder, const ComponentKernel& of) {
  const std::vector<std::uint32_t> slots = free_slots(of);
  const std::vector<Id> all = builder.append(rows_of(*of.term, slots));
  const std::vector<std::uint32_t> free = free_of(of);
  const std::size_t rows = of.term->topology->program.outputs.size();
  std::vector<Id> out(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rows));
  for (std::size_t r = 0; r < rows; ++r) {
    for (const std::uint32_t p : free) {
      Id entry = builder.literal(0);
      for (std::size_t s = 0; s < slots.size(); ++s) {
        if (of.parameter_of_slot[slots[s]] != p) continue;
        const Id part = all[rows + r * slots.size() + s];
        entry = builder.total(entry, part);
      }
      out.push_back(entry);
    }
  }
  return out;
}

ir::Program rows_program(const ComponentKernel& of) {
  Builder builder(of);
  const std::vector<Id> rows = build_rows(builder, of);
  return builder.take(rows, 0);
}

ir::Program cost_of(const runtime::Term& term) {
  return runtime::pass_program(runtime::Pass::cost, term.topology->program, {}, term.energy,
                               term.loss);
}

ir::Program kinks_program(const ComponentKernel& of) {
  const ir::Program cost = cost_of(*of.term);
  const autodiff::KinkSearch kinks =
      autodiff::search_for_kinks(cost, free_slots(of), autodiff::KinksSought::falling);
  Builder builder(of);
  std::vector<Id> out = builder.append(cost);
  if (!kinks.empty()) out.push_back(builder.append(kinks.program).front());
  return builder.take(out, 0);
}

/// Upper triangle of the Hessian by free parameter, where slots of one scalar are added.
ir::Program curvature_program(const ComponentKernel& of) {
  const ir::Program cost = cost_of(*of.term);
  const std::vector<std::uint32_t> slots = free_slots(of), free = free_of(of);
  Builder builder(of);
  const std::vector<Id> all = builder.append(autodiff::hessian(cost, slots));
  const std::size_t n = slots.size();
  const auto parameter = [&](std::size_t s) { return of.parameter_of_slot[slots[s]]; };
  std::vector<Id> out;
  for (std::size_t a = 0; a < free.size(); ++a) {
    for (std::size_t b = a; b < free.size(); ++b) {
      Id sum = builder.literal(0);
      for (std::size_t s = 0; s < n; ++s) {
        for (std::size_t t = 0; t < n; ++t) {
          if (parameter(s) != free[a] || parameter(t) != free[b]) continue;
          const std::size_t i = std::min(s, t), j = std::max(s, t);
          const Id part = all[i * n - i * (i + 1) / 2 + j];
          sum = builder.total(sum, part);
        }
      }
      out.push_back(sum);
    }
  }
  return builder.take(out, 0);
}

/// before + Σ r² of the first m rows.
Id add_squares(Builder& builder, const std::vector<Id>& rows, std::size_t m, Id before) {
  for (std::size_t r = 0; r < m; ++r) before = builder.add_product(before, rows[r], rows[r]);
  return before;
}

/// before + twice the cost of a block with these rows.
Id add_cost(Builder& builder, const ComponentKernel& of, const std::vector<Id>& rows, Id before) {
  const ir::Program& f = of.term->topology->program;
  if (of.term->loss != nullptr) {
    const Id half = builder.append(autodiff::cost(autodiff::Robust{f, *of.term->loss}))[0];
    return builder.add(builder.add(half, half), before);
  }
  return add_squares(builder, rows, f.outputs.size(), before);
}

/// Sums with what rows add to them, as the outputs of a part.
class SumWriter {
 public:
  SumWriter(Builder& builder, LanePart& part) : builder_(builder), part_(part) {}

  /// The target of a sum or of a carried number, as a leaf.
  Id leaf(LanePart::Target target) {
    const auto found = std::ranges::find(part_.targets, target);
    const auto number = static_cast<std::uint32_t>(found - part_.targets.begin());
    if (found == part_.targets.end()) part_.targets.push_back(target);
    return builder_.target(number);
  }
  void put(LanePart::Target target, Id value) {
    part_.outputs.push_back(target);
    outputs_.push_back(value);
  }
  /// Adds what a block adds to all sums.
  ///
  ///   rows         r, then J over n free parameters row by row
  ///   cost_before  the first sum; cost: this and twice the block's cost
  void add_rows(std::span<const Id> rows, std::size_t m, std::uint32_t n, Id cost, Id cost_before) {
    const auto entry = [&](std::size_t r, std::uint32_t k) { return rows[m + r * n + k]; };
    if (cost != cost_before) put({false, 0}, cost);
    std::uint32_t number = 1;
    for (std::uint32_t a = 0; a < n; ++a, ++number) {
      add(
          number, m, [&](std::size_t r) { return std::pair(entry(r, a), rows[r]); }, 1);
    }
    for (std::uint32_t a = 0; a < n; ++a)
      for (std::uint32_t b = a; b < n; ++b, ++number)
        add(
            number, m, [&](std::size_t r) { return std::pair(entry(r, a), entry(r, b)); }, 2);
  }
  void finish() {
    part_.first_parameter = builder_.first_parameter();
    part_.first_target = builder_.first_target();
    part_.program = builder_.take(outputs_, static_cast<std::uint32_t>(part_.targets.size()));
  }

 private:
  /// Adds products of pairs whose first `tested` factors are not literally 0.
  template <class Pair>
  void add(std::uint32_t number, std::size_t m, const Pair& pair, int tested) {
    Id sum = ir::kNone;
    for (std::size_t r = 0; r < m; ++r) {
      const auto [a, b] = pair(r);
      if (builder_.is_zero(a) || (tested > 1 && builder_.is_zero(b))) continue;
      if (sum == ir::kNone) sum = leaf({false, number});
      sum = builder_.add_product(sum, a, b);
    }
    if (sum != ir::kNone) put({false, number}, sum);
  }

  Builder& builder_;
  LanePart& part_;
  std::vector<Id> outputs_;
};

/// The block as one part.
LanePart whole_part(const ComponentKernel& of) {
  LanePart part;
  Builder builder(of);
  const ir::LeafCounts& leaves = of.term->topology->program.leaves;
  for (std::uint32_t d = 0; d < leaves.data; ++d) part.data.push_back({d, 0});
  part.first_uniform = leaves.data;
  SumWriter sums(builder, part);
  const std::vector<Id> rows = build_rows(builder, of);
  const Id before = sums.leaf({false, 0});
  sums.add_rows(rows, of.term->topology->program.outputs.size(),
                static_cast<std::uint32_t>(free_of(of).size()), add_cost(builder, of, rows, before),
                before);
  sums.finish();
  return part;
}

/// The parts of a block with a loop. What they hand on: each state or constant, then its tangents
/// by free parameter.
class RolledParts {
 public:
  RolledParts(const ComponentKernel& of, const autodiff::RolledProgram& rolled)
      : of_(of), rolled_(rolled), free_(free_of(of)) {
    handed_ = rolled.states + rolled.constants;
    moves_.resize(handed_ * free_.size());
  }

  std::uint32_t carried() const { return numbers(handed_); }
  std::uint32_t carried_by_steps() const { return numbers(rolled_.states); }
  std::vector<LanePart> make() {
    std::vector<LanePart> parts;
    find_movers();
    if (!rolled_.before.program.outputs.empty()) parts.push_back(make(rolled_.before, 0, handed_));
    parts.push_back(make(rolled_.step, handed_, rolled_.states));
    parts.back().steps = rolled_.steps;
    if (rolled_.after.rows > 0) parts.push_back(make(rolled_.after, handed_, 0));
    return parts;
  }

 private:
  using Part = autodiff::RolledProgram::Part;

  /// Values and derivatives of a part: outputs, then by output and slot.
  struct Derived {
    std::vector<std::uint32_t> slots;  ///< free ones of the term, then those of what is handed on
    ir::Program program;
  };
  Derived derive(const Part& part, std::uint32_t read) const {
    Derived out{.slots = free_slots(of_), .program = {}};
    for (std::uint32_t s = 0; s < read; ++s)
      out.slots.push_back(static_cast<std::uint32_t>(of_.parameter_of_slot.size()) + s);
    out.program = autodiff::residual_and_jacobian(part.program, out.slots);
    return out;
  }
  static bool is_zero(const ir::Program& program, std::size_t output) {
    const ir::Node& node = program.nodes[program.outputs[output]];
    return node.op == Op::Literal && node.literal() == 0;
  }
  std::uint32_t parameter(std::uint32_t slot) const { return of_.parameter_of_slot[slot]; }
  bool is_of_term(std::uint32_t slot) const { return slot < of_.parameter_of_slot.size(); }

  /// Marks the tangents of what is handed on that are not always 0.
  void find_movers() {
    if (handed_ == 0) return;
    mark(rolled_.before, derive(rolled_.before, 0), handed_);
    const Derived step = derive(rolled_.step, handed_);
    while (mark(rolled_.step, step, rolled_.states)) {
    }
  }
  bool mark(const Part& part, const Derived& derived, std::uint32_t hands) {
    bool changes = false;
    const std::size_t outputs = part.program.outputs.size(), slots = derived.slots.size();
    for (std::uint32_t h = 0; h < hands; ++h) {
      for (std::size_t s = 0; s < slots; ++s) {
        if (is_zero(derived.program, outputs + (part.rows + h) * slots + s)) continue;
        for (std::size_t a = 0; a < free_.size(); ++a) {
          const std::uint32_t slot = derived.slots[s];
          if (is_of_term(slot) ? parameter(slot) != free_[a] : !moves(of_slot(slot), a)) continue;
          changes |= !moves(h, a);
          moves_[h * free_.size() + a] = 1;
        }
      }
    }
    return changes;
  }
  std::uint32_t of_slot(std::uint32_t slot) const {
    return slot - static_cast<std::uint32_t>(of_.parameter_of_slot.size());
  }
  bool moves(std::size_t handed, std::size_t a) const {
    return moves_[handed * free_.size() + a] != 0;
  }
  /// How many numbers so many values and their tangents are.
  std::uint32_t numbers(std::uint32_t handed) const {
    return handed * static_cast<std::uint32_t>(1 + free_.size());
  }
  LanePart::Target value(std::uint32_t handed) const { return {true, numbers(handed)}; }
  LanePart::Target tangent(std::uint32_t handed, std::size_t a) const {
    return {true, value(handed).number + 1 + static_cast<std::uint32_t>(a)};
  }

  /// A part that reads `read` numbers of what is handed on, and hands on `hands`.
  LanePart make(const Part& from, std::uint32_t read, std::uint32_t hands) const {
    LanePart part;
    part.data = from.data;
    part.first_uniform = from.program.leaves.data;
    Builder builder(of_, from.program.leaves);
    SumWriter sums(builder, part);
    std::vector<Id> more;
    for (std::uint32_t h = 0; h < read; ++h) more.push_back(sums.leaf(value(h)));
    const Derived derived = derive(from, read);
    const std::vector<Id> all = builder.append(derived.program, more);
    const std::size_t outputs = from.program.outputs.size(), n = free_.size();
    // The derivative of output o by free parameter a.
    const auto along = [&](std::size_t o, std::size_t a) {
      Id sum = builder.literal(0);
      for (std::size_t s = 0; s < derived.slots.size(); ++s) {
        const Id entry = all[outputs + o * derived.slots.size() + s];
        const std::uint32_t slot = derived.slots[s];
        if (is_of_term(slot)) {
          if (parameter(slot) == free_[a]) sum = builder.total(sum, entry);
        } else if (!builder.is_zero(entry) && moves(of_slot(slot), a)) {
          const Id other = sums.leaf(tangent(of_slot(slot), a));
          sum = builder.total(sum, builder.product(entry, other));
        }
      }
      return sum;
    };
    std::vector<Id> rows(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(from.rows));
    for (std::size_t r = 0; r < from.rows; ++r)
      for (std::size_t a = 0; a < n; ++a) rows.push_back(along(r, a));
    if (from.rows > 0) {
      const Id before = sums.leaf({false, 0});
      const Id cost = add_squares(builder, rows, from.rows, before);
      sums.add_rows(rows, from.rows, static_cast<std::uint32_t>(n), cost, before);
    }
    for (std::uint32_t h = 0; h < hands; ++h) {
      sums.put(value(h), all[from.rows + h]);
      for (std::size_t a = 0; a < n; ++a)
        if (moves(h, a)) sums.put(tangent(h, a), along(from.rows + h, a));
    }
    sums.finish();
    return part;
  }

  const ComponentKernel& of_;
  const autodiff::RolledProgram& rolled_;
  const std::vector<std::uint32_t> free_;
  std::uint32_t handed_ = 0;
  std::vector<std::uint8_t> moves_;  // by number handed on and free parameter
};

/// Nodes from which on a loop is stored once: below, one program is as good.
constexpr std::size_t kLeastRolled = 256;
/// Free parameters for which tangents go through loops of fewer rows.
constexpr std::size_t kFew = 8;

/// The loop of a block, or nothing: a loss takes all rows of a block together, and few rows of many
/// parameters have better derivatives backward.
std::optional<autodiff::RolledProgram> loop_of(const ComponentKernel& of) {
  const ir::Program& f = of.term->topology->program;
  if (of.term->loss != nullptr || f.nodes.size() < kLeastRolled) return std::nullopt;
  if (free_of(of).size() > std::max(kFew, f.outputs.size())) return std::nullopt;
  return autodiff::roll(f);
}

}  // namespace

ir::Program cost_and_rows(const ComponentKernel& of) {
  Builder builder(of);
  std::vector<Id> outputs = build_rows(builder, of);
  outputs.insert(outputs.begin(), add_cost(builder, of, outputs, builder.literal(0)));
  return builder.take(outputs, 0);
}

LaneKernel::LaneKernel(const ComponentKernel& of, codegen::Bits bits)
    : of_(&of),
      bits_(bits),
      row_count_(of.term->topology->program.outputs.size()),
      free_(free_of(of)) {
  if (const std::optional<autodiff::RolledProgram> rolled = loop_of(of)) {
    RolledParts parts(of, *rolled);
    parts_ = parts.make();
    carried_ = parts.carried();
    carried_by_steps_ = parts.carried_by_steps();
  } else {
    parts_.push_back(whole_part(of));
  }
  for (const LanePart& part : parts_)
    tiles_.emplace_back(part.program, runtime::cpu::tile_ops<double>(bits));
}

const runtime::cpu::TileKernel<double>& LaneKernel::made(
    Late& late, ir::Program (*derive)(const ComponentKernel&)) const {
  std::call_once(late.once,
                 [&] { late.tile.emplace(derive(*of_), runtime::cpu::tile_ops<double>(bits_)); });
  return *late.tile;
}

const runtime::cpu::TileKernel<double>& LaneKernel::rows() const {
  return made(*rows_, rows_program);
}

const runtime::cpu::TileKernel<double>& LaneKernel::curvature() const {
  return made(*curvature_, curvature_program);
}

const runtime::cpu::TileKernel<double>& LaneKernel::kinks() const {
  return made(*kinks_, kinks_program);
}

}  // namespace topograd
