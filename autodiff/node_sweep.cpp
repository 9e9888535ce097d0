// Evaluates long programs with numbers: partial derivatives of nodes, forward and reverse sweeps.
#include "node_sweep.hpp"

#include "../ir/passes/passes.hpp"
#include "../ir/program.hpp"
#include "derivatives.hpp"
#include "rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>

namespace topograd::autodiff {
namespace {

using ir::Id;
using ir::Op;
using Kind = Partial::Kind;

constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
/// Columns of one forward sweep: eight numbers are a line of the cache.
constexpr std::size_t kWide = 8, kNarrow = 4;

/// y = op(a, b, c) as a program of as many parameters as the op has operands.
ir::Program program_of(Op op) {
  ir::Graph graph;
  std::array<Id, 3> operands{};
  const auto arity = static_cast<std::uint32_t>(ir::arity(op));
  for (std::uint32_t k = 0; k < arity; ++k) operands[k] = graph.leaf(Op::Parameter, k);
  const auto [a, b, c] = operands;
  const Id y = graph.add(op, a, b, c);
  return graph.extract({&y, 1}, {.parameters = arity});
}

/// Programs of one op: number k is the derivative by operand k, or, in the order of
/// autodiff::hessian(), a second one.
class OpRules {
 public:
  explicit OpRules(ir::Program second) : program_(std::move(second)) {}
  explicit OpRules(Op op) {
    const auto arity = static_cast<std::uint32_t>(ir::arity(op));
    Builder builder(program_of(op));
    const std::array<Partial, 3> rules = partials(builder, builder.outputs()[0]);
    std::vector<Id> numbers;
    for (std::uint32_t k = 0; k < arity; ++k) numbers.push_back(number(builder, rules[k]));
    program_ = builder.extract(numbers, builder.leaves());
  }

  void evaluate(double a, double b, double c, double* out) const {
    thread_local std::vector<double> values;
    values.resize(std::max(values.size(), program_.nodes.size()));
    const double operands[3] = {a, b, c};
    for (std::size_t k = 0; k < program_.nodes.size(); ++k) {
      const ir::Node& n = program_.nodes[k];
      if (n.op == Op::Parameter) {
        values[k] = operands[n.slot()];
      } else if (n.op == Op::Literal) {
        values[k] = n.literal();
      } else {
        values[k] =
            ir::apply<double>(n.op, values[n.args[0]], values[n.args[1]], values[n.args[2]]);
      }
    }
    for (std::size_t k = 0; k < program_.outputs.size(); ++k) out[k] = values[program_.outputs[k]];
  }

 private:
  /// The factor of a tangent; pull() and push() apply the same to programs.
  static Id number(Builder& builder, const Partial& p) {
    const Expr zero{&builder, builder.graph().literal(0)}, one = zero.literal(1);
    const auto sided = [&](Expr chosen, Expr other) {
      return select(p.at, zero.literal(0.5), select(p.d, chosen, other)).id;
    };
    switch (p.kind) {
      case Kind::Zero: return zero.id;
      case Kind::One: return one.id;
      case Kind::MinusOne: return zero.literal(-1).id;
      case Kind::Factor:
      case Kind::Steep:
      case Kind::Mask: return p.d.id;
      case Kind::Guarded: return select(p.at, zero, p.d).id;
      case Kind::Twice: return (p.d + p.d).id;
      case Kind::WhereTrue: return select(p.d, one, zero).id;
      case Kind::WhereFalse: return select(p.d, zero, one).id;
      case Kind::Above: return sided(one, zero);
      case Kind::Below: return sided(zero, one);
    }
    return zero.id;
  }

  ir::Program program_;
};

/// The rules of all ops that are not composite.
const OpRules& rules_of(Op op) {
  static const auto& all = *new std::vector<OpRules>([] {
    std::vector<OpRules> rules;
    for (const ir::OpInfo& each : ir::kOps)
      rules.emplace_back(each.composite || each.leaf ? Op::Neg : each.op);
    return rules;
  }());
  return all[static_cast<std::size_t>(op)];
}

/// Nodes of a window are ordered by depth and op, so that one loop computes many of them. Windows
/// are short enough that the tangents of their nodes stay in a cache.
constexpr std::size_t kWindow = 4096;

/// The same program, whose nodes are ordered in windows by depth within the window, then by whether
/// they depend on a parameter, then by op.
ir::Program ordered(const ir::Program& f) {
  const std::size_t size = f.nodes.size();
  std::vector<std::uint32_t> depth(size, 0);
  std::vector<std::uint8_t> moves(size, 0);
  std::vector<Id> order(size), renamed(size);
  std::iota(order.begin(), order.end(), Id{0});
  for (std::size_t first = 0; first < size; first += kWindow) {
    const std::size_t end = std::min(size, first + kWindow);
    for (std::size_t id = first; id < end; ++id) {
      const ir::Node& n = f.nodes[id];
      moves[id] = n.op == Op::Parameter;
      for (const Id from : n.operands()) {
        moves[id] |= moves[from];
        if (from >= first) depth[id] = std::max(depth[id], depth[from] + 1);
      }
    }
    const auto key = [&](Id id) { return std::tuple(depth[id], moves[id], f.nodes[id].op, id); };
    std::sort(order.begin() + static_cast<std::ptrdiff_t>(first),
              order.begin() + static_cast<std::ptrdiff_t>(end),
              [&](Id a, Id b) { return key(a) < key(b); });
  }
  ir::Program out{.nodes = {}, .outputs = f.outputs, .guards = {}, .leaves = f.leaves};
  for (Id at = 0; at < size; ++at) {
    ir::Node node = f.nodes[order[at]];
    for (std::size_t k = 0; k < node.operands().size(); ++k) node.args[k] = renamed[node.args[k]];
    renamed[order[at]] = at;
    out.nodes.push_back(node);
  }
  for (Id& output : out.outputs) output = renamed[output];
  return out;
}

/// Values, or values and partial derivatives, of a run of nodes with one op.
template <bool Partials>
class RunLoop {
 public:
  ///   d  derivatives by each operand, node by node; null without Partials
  RunLoop(std::span<const ir::Node> nodes, Id first, double* values, double* d)
      : nodes_(nodes), first_(first), v_(values), d_(d) {}

  void run(Op op, std::span<const std::uint8_t> guarded_roots) const {
    switch (op) {  // NOLINT(clang-diagnostic-switch-enum): any_op() has a rule for each op
      case Op::Add: return binary(Numbers::add);
      case Op::Sub: return binary(Numbers::sub);
      case Op::Mul: return binary(Numbers::mul);
      case Op::Div: return binary(Numbers::div);
      case Op::Neg: return unary(Numbers::neg);
      case Op::Square: return unary(Numbers::square);
      case Op::Exp: return unary(Numbers::exp);
      case Op::Sqrt: return roots(guarded_roots);
      default: return any_op(op);
    }
  }

 private:
  using Numbers = OpNumbers<Partials>;
  void roots(std::span<const std::uint8_t> guarded) const {
    for (std::size_t k = 0; k < nodes_.size(); ++k)
      v_[first_ + k] = Numbers::root(v_[nodes_[k].args[0]], Partials && guarded[first_ + k] != 0,
                                     derivatives(k));
  }
  template <class F>
  void binary(const F& f) const {
    for (std::size_t k = 0; k < nodes_.size(); ++k)
      v_[first_ + k] = f(v_[nodes_[k].args[0]], v_[nodes_[k].args[1]], derivatives(2 * k));
  }
  template <class F>
  void unary(const F& f) const {
    for (std::size_t k = 0; k < nodes_.size(); ++k)
      v_[first_ + k] = f(v_[nodes_[k].args[0]], derivatives(k));
  }
  double* derivatives(std::size_t k) const { return Partials ? d_ + k : nullptr; }
  void any_op(Op op) const {
    const std::size_t arity = static_cast<std::size_t>(ir::arity(op));
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      const std::array<Id, 3>& from = nodes_[k].args;
      const double a = v_[from[0]], b = v_[from[1]], c = v_[from[2]];
      v_[first_ + k] = ir::apply<double>(op, a, b, c);
      if constexpr (Partials) any_partials(op, a, b, c, v_[first_ + k], derivatives(arity * k));
    }
  }

  std::span<const ir::Node> nodes_;
  Id first_;
  double *v_, *d_;
};

template <bool Finite>
double product(double d, double v) {
  return Finite ? d * v : zero_rule(d, v);
}

/// True if some node's op has this property.
bool has(const ir::Program& f, bool ir::OpInfo::*property) {
  return std::ranges::any_of(f.nodes, [&](const ir::Node& n) { return ir::info(n.op).*property; });
}

}  // namespace

/// The derivative of a power by its base, which rules.cpp writes for literal exponents, is the same
/// for others wherever it is finite; the one by the exponent is not read if that is a literal.
void any_partials(Op op, double a, double b, double c, double y, double d[3]) {
  if (op != Op::Pow) return rules_of(op).evaluate(a, b, c, d);
  d[0] = b == 0 ? 0 : b * std::pow(a, b - 1);
  d[1] = y == 0 ? 0 : y * std::log(a);
}

NodeSweep::NodeSweep(const ir::Program& f)
    : program_(ordered(has(f, &ir::OpInfo::composite) ? ir::expand(f) : f)) {
  list_operations();
  share_slots();
  find_runs();
  for (std::uint32_t k = 0; k < program_.outputs.size(); ++k)
    rows_.push_back({program_.outputs[k], k});
  std::ranges::stable_sort(rows_, {}, &Row::node);
}

void NodeSweep::list_operations() {
  const std::size_t size = program_.nodes.size();
  slot_.assign(size, kNoSlot);
  op_of_.assign(size, 0);
  for (Id id = 0; id < size; ++id) {
    const ir::Node& n = program_.nodes[id];
    if (n.op == Op::Parameter) {
      slot_[id] = 0;  // depends on one; numbered by share_slots()
      parameters_.push_back(id);
    }
    if (ir::is_leaf(n.op)) continue;
    ++operations_;
    const auto first_edge = static_cast<std::uint32_t>(edges_.size());
    for (std::uint32_t k = 0; k < n.operands().size(); ++k) {
      if (slot_[n.args[k]] == kNoSlot) continue;
      edges_.push_back({.from = n.args[k], .partial = partials_ + k});
      slot_[id] = 0;
    }
    if (slot_[id] == kNoSlot) continue;
    op_of_[id] = static_cast<std::uint32_t>(ops_.size());
    ops_.push_back({.node = id, .first_edge = first_edge});
    partials_ += static_cast<std::uint32_t>(n.operands().size());
  }
  ops_.push_back({.first_edge = static_cast<std::uint32_t>(edges_.size())});
}

void NodeSweep::find_runs() {
  const auto has_root = [](const ir::Node& n) { return n.op == Op::Sqrt; };
  if (std::ranges::any_of(program_.nodes, has_root)) {
    Builder builder(program_);
    guarded_roots_.assign(program_.nodes.size(), 0);
    for (Id id = 0; id < program_.nodes.size(); ++id)
      if (has_root(program_.nodes[id]))
        guarded_roots_[id] =
            builder.traits(program_.nodes[id].args[0]).nonnegative && !builder.traits(id).away;
  }
  std::uint32_t partial = 0;
  for (Id id = 0; id < program_.nodes.size(); ++id) {
    const Op op = program_.nodes[id].op;
    const bool moves = slot_[id] != kNoSlot && !ir::is_leaf(op);
    if (runs_.empty() || runs_.back().op != op || runs_.back().moves != moves)
      runs_.push_back({.op = op, .moves = moves, .first = id, .first_partial = partial});
    if (moves) partial += static_cast<std::uint32_t>(ir::arity(op));
  }
  runs_.push_back({.first = static_cast<Id>(program_.nodes.size())});
}

/// Gives tangents of nodes that are live at different times the same memory. Those of parameters
/// stay, since a sweep begins with them.
void NodeSweep::share_slots() {
  std::vector<std::uint32_t> last_edge(program_.nodes.size(), kNoSlot);
  for (std::uint32_t e = 0; e < edges_.size(); ++e) last_edge[edges_[e].from] = e;
  for (const Id id : parameters_) slot_[id] = slots_++;
  std::vector<std::uint32_t> free;
  for (std::size_t k = 0; k + 1 < ops_.size(); ++k) {
    Operation& op = ops_[k];
    for (std::uint32_t e = op.first_edge; e < ops_[k + 1].first_edge; ++e) {
      Edge& edge = edges_[e];
      edge.slot = slot_[edge.from];
      if (last_edge[edge.from] == e && program_.nodes[edge.from].op != Op::Parameter)
        free.push_back(edge.slot);
    }
    if (free.empty()) free.push_back(slots_++);
    op.slot = slot_[op.node] = free.back();
    free.pop_back();
    if (last_edge[op.node] == kNoSlot) free.push_back(op.slot);  // a row that nothing reads
  }
}

std::size_t NodeSweep::bytes() const {
  return program_.nodes.capacity() * sizeof(ir::Node) + parameters_.capacity() * sizeof(Id) +
         ops_.capacity() * sizeof(Operation) + edges_.capacity() * sizeof(Edge) +
         (slot_.capacity() + op_of_.capacity()) * sizeof(std::uint32_t) +
         runs_.capacity() * sizeof(Run) + guarded_roots_.capacity() +
         rows_.capacity() * sizeof(Row);
}

template <bool Partials>
void NodeSweep::sweep(const ir::Inputs<double>& in, std::span<double> out, Workspace& work) const {
  const std::size_t size = program_.nodes.size();
  if (work.values.size() < size) work.values.resize(size);
  if (Partials && work.partials.size() < partials_) work.partials.resize(partials_);
  double* const v = work.values.data();
  for (std::size_t r = 0; r + 1 < runs_.size(); ++r) {
    const Run& run = runs_[r];
    const Id end = runs_[r + 1].first;
    const auto nodes = std::span(program_.nodes).subspan(run.first, end - run.first);
    if (run.op == Op::Literal) {
      for (Id id = run.first; id < end; ++id) v[id] = program_.nodes[id].literal();
    } else if (ir::is_leaf(run.op)) {
      const std::span<const double> space = *ir::leaf_space(run.op, in);
      for (Id id = run.first; id < end; ++id) v[id] = space[program_.nodes[id].slot()];
    } else if (Partials && run.moves) {
      RunLoop<true>(nodes, run.first, v, work.partials.data() + run.first_partial)
          .run(run.op, guarded_roots_);
    } else {
      RunLoop<false>(nodes, run.first, v, nullptr).run(run.op, guarded_roots_);
    }
  }
  for (std::size_t k = 0; k < program_.outputs.size(); ++k) out[k] = v[program_.outputs[k]];
}

void NodeSweep::evaluate(const ir::Inputs<double>& in, std::span<double> out,
                         Workspace& work) const {
  sweep<false>(in, out, work);
}

template <std::size_t W>
void NodeSweep::write_rows(std::span<const Row> rows, std::span<const Column> columns,
                           const double* tangents) const {
  for (const Row& row : rows) {
    const std::uint32_t slot = slot_[row.node];
    for (std::size_t k = 0; k < columns.size(); ++k)
      if (columns[k].first != nullptr)
        columns[k].first[row.row * columns[k].stride] =
            slot == kNoSlot ? 0 : tangents[std::size_t{slot} * W + k];
  }
}

template <std::size_t W, bool Finite>
void NodeSweep::forward(std::span<const Column> columns, std::size_t first, Workspace& work) const {
  work.tangents.resize(std::max(work.tangents.size(), std::size_t{slots_} * W));
  double* const tangents = work.tangents.data();
  for (const Id id : parameters_) {
    double* const t = tangents + std::size_t{slot_[id]} * W;
    std::fill_n(t, W, 0.0);
    const std::size_t column = program_.nodes[id].slot() - first;
    if (column < W) t[column] = 1;
  }
  const std::span<const Column> wanted =
      columns.subspan(first, std::min(W, columns.size() - first));
  std::size_t row = 0;
  // A row is written as soon as its node has tangents, whose slot may be used again.
  const auto write_up_to = [&](Id node) {
    const std::size_t begin = row;
    while (row < rows_.size() && rows_[row].node <= node) ++row;
    write_rows<W>(std::span(rows_).subspan(begin, row - begin), wanted, tangents);
  };
  for (std::size_t j = 0; j + 1 < ops_.size(); ++j) {
    const Operation& op = ops_[j];
    std::array<double, W> sum{};
    const std::uint32_t end = ops_[j + 1].first_edge;
    for (std::uint32_t e = op.first_edge; e < end; ++e) {
      const double d = work.partials[edges_[e].partial];
      const double* const t = tangents + std::size_t{edges_[e].slot} * W;
      for (std::size_t k = 0; k < W; ++k) sum[k] += product<Finite>(d, t[k]);
    }
    std::copy_n(sum.data(), W, tangents + std::size_t{op.slot} * W);
    if (row < rows_.size() && rows_[row].node <= op.node) write_up_to(op.node);
  }
  write_up_to(kNoSlot);
}

template <bool Finite>
void NodeSweep::reverse(const Row& row, std::span<const Column> columns, Workspace& work) const {
  const std::size_t size = program_.nodes.size();
  work.adjoints.resize(std::max(work.adjoints.size(), size));
  double* const adjoints = work.adjoints.data();
  std::fill_n(adjoints, row.node + 1, 0.0);
  adjoints[row.node] = 1;
  const bool moves = slot_[row.node] != kNoSlot && !ir::is_leaf(program_.nodes[row.node].op);
  for (std::size_t j = moves ? op_of_[row.node] + 1 : 0; j-- > 0;) {
    const Operation& op = ops_[j];
    const double g = adjoints[op.node];
    if (g == 0) continue;  // the zero rule
    for (std::uint32_t e = op.first_edge; e < ops_[j + 1].first_edge; ++e)
      adjoints[edges_[e].from] += product<Finite>(work.partials[edges_[e].partial], g);
  }
  for (const Column& column : columns)
    if (column.first != nullptr) column.first[row.row * column.stride] = 0;
  for (const Id id : parameters_) {
    const Column& column = columns[program_.nodes[id].slot()];
    if (id <= row.node && column.first != nullptr)
      column.first[row.row * column.stride] = adjoints[id];
  }
}

template <bool Finite>
void NodeSweep::differentiate(std::span<const Column> columns, Workspace& work) const {
  if (prefers_reverse(rows_.size(), parameters())) {
    for (const Row& row : rows_) reverse<Finite>(row, columns, work);
    return;
  }
  if (columns.size() <= kNarrow) return forward<kNarrow, Finite>(columns, 0, work);
  for (std::size_t first = 0; first < columns.size(); first += kWide)
    forward<kWide, Finite>(columns, first, work);
}

void NodeSweep::linearize(const ir::Inputs<double>& in, std::span<double> out,
                          std::span<const Column> columns, Workspace& work) const {
  sweep<true>(in, out, work);
  double sum = 0;  // NaN once a partial is not finite
  for (std::size_t k = 0; k < partials_; ++k) sum += 0 * work.partials[k];
  const bool finite = sum == 0;
  if (finite) {
    differentiate<true>(columns, work);
  } else {
    differentiate<false>(columns, work);
  }
}

bool has_plain_curvature(Op op) {
  switch (op) {  // NOLINT(clang-diagnostic-switch-enum): all others get programs
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Neg:
    case Op::Square:
    case Op::Exp:
    case Op::Log:
    case Op::Sin:
    case Op::Cos:
    case Op::Tan:
    case Op::Tanh: return true;
    default: return false;
  }
}

namespace {

const OpRules& curvature_of(Op op) {
  static const auto& all = *new std::vector<OpRules>([] {
    std::vector<OpRules> rules;
    for (const ir::OpInfo& each : ir::kOps) {
      const ir::Program f = program_of(has_plain_curvature(each.op) ? each.op : Op::Neg);
      rules.emplace_back(hessian(f, all_slots(f)));
    }
    return rules;
  }());
  return all[static_cast<std::size_t>(op)];
}

bool is_linear(Op op) { return op == Op::Add || op == Op::Sub || op == Op::Neg; }

}  // namespace

void tangents_of_partials(Op op, double a, double b, double ta, double tb, double out[2]) {
  out[0] = out[1] = 0;
  if (is_linear(op)) return;
  double second[3] = {};
  if (ir::arity(op) == 1) {
    curvature_of(op).evaluate(a, 0, 0, second);
    out[0] = second[0] * ta;
    return;
  }
  if (op == Op::Mul) {
    second[1] = 1;
  } else if (op == Op::Div) {
    second[1] = -1 / (b * b);
    second[2] = -2 * a * second[1] / b;
  } else {
    curvature_of(op).evaluate(a, b, 0, second);
  }
  out[0] = second[0] * ta + second[1] * tb;
  out[1] = second[1] * ta + second[2] * tb;
}

namespace {

/// The value of an op of one or two operands, and its derivatives d.
double value_of(const ir::Node& n, const double* v, double d[3]) {
  const double b = n.operands().size() > 1 ? v[n.args[1]] : 0;
  return OpNumbers<true>::any(n.op, v[n.args[0]], b, 0, false, d);
}

}  // namespace

std::optional<CurvatureSweep> CurvatureSweep::make(const ir::Program& f) {
  ir::Program expanded = has(f, &ir::OpInfo::composite) ? ir::expand(f) : f;
  const auto is_fit = [](const ir::Node& n) {
    return ir::is_leaf(n.op) || has_plain_curvature(n.op);
  };
  if (!std::ranges::all_of(expanded.nodes, is_fit)) return std::nullopt;
  return CurvatureSweep(std::move(expanded));
}

std::size_t CurvatureSweep::bytes() const { return program_.nodes.capacity() * sizeof(ir::Node); }

void CurvatureSweep::add(const ir::Inputs<double>& in, std::span<const double> weights,
                         std::span<const double> p, std::span<double> out) const {
  const std::vector<ir::Node>& nodes = program_.nodes;
  // Values and tangents, adjoints and their tangents.
  std::vector<double> v(nodes.size()), t(nodes.size(), 0), g(nodes.size(), 0), h(nodes.size(), 0);
  double d[3] = {};
  for (Id id = 0; id < nodes.size(); ++id) {
    const ir::Node& n = nodes[id];
    if (n.op == Op::Literal) {
      v[id] = n.literal();
    } else if (ir::is_leaf(n.op)) {
      v[id] = (*ir::leaf_space(n.op, in))[n.slot()];
      if (n.op == Op::Parameter) t[id] = p[n.slot()];
    } else {
      v[id] = value_of(n, v.data(), d);
      for (std::size_t k = 0; k < n.operands().size(); ++k) t[id] += zero_rule(d[k], t[n.args[k]]);
    }
  }
  for (std::size_t row = 0; row < weights.size(); ++row) g[program_.outputs[row]] += weights[row];
  for (std::size_t id = nodes.size(); id-- > 0;) {
    const ir::Node& n = nodes[id];
    if (n.op == Op::Parameter) out[n.slot()] += h[id];
    if (ir::is_leaf(n.op) || (g[id] == 0 && h[id] == 0)) continue;
    value_of(n, v.data(), d);
    double of_d[2] = {};
    const std::size_t second = n.operands().size() > 1 ? n.args[1] : n.args[0];
    tangents_of_partials(n.op, v[n.args[0]], v[second], t[n.args[0]], t[second], of_d);
    for (std::size_t k = 0; k < n.operands().size(); ++k) {
      g[n.args[k]] += zero_rule(d[k], g[id]);
      h[n.args[k]] += zero_rule(d[k], h[id]) + zero_rule(of_d[k], g[id]);
    }
  }
}

}  // namespace topograd::autodiff
