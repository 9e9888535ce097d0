// The judge: programs in long double with derivative rules of its own, and a dense QR.
#include "judge.hpp"

#include "../../ir/evaluate.hpp"
#include "../../ir/machine/formatted.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace topograd::test {
namespace {

using ir::Op;

constexpr Real kLog2 = 0.693147180559945309417232121458176568L;
constexpr Real kLog10 = 2.302585092994045684017991454684364208L;

/// Central difference of an op without a rule, by operand k.
Real difference(Op op, std::array<Real, 3> a, int k) {
  const Real at = a[k];
  const Real h = at == 0 ? 1e-9L : 1e-6L * std::min<Real>(std::fabs(at), 1);
  const auto value = [&](Real x) {
    a[k] = x;
    return ir::apply<Real>(op, a[0], a[1], a[2]);
  };
  const Real here = value(at), up = value(at + h), down = value(at - h);
  if (std::isnan(down)) return (up - here) / h;
  if (std::isnan(up)) return (here - down) / h;
  return (up - down) / (2 * h);
}

/// Slopes of y = op(a) of one operand; NaN: there is no rule here.
Real slope(Op op, Real a, Real y) {
  switch (op) {
    case Op::Neg: return -1;
    case Op::Square: return 2 * a;
    case Op::Cube: return 3 * a * a;
    case Op::Reciprocal: return -y * y;
    case Op::Sqrt: return a == 0 ? 0 : 1 / (2 * y);
    case Op::Rsqrt: return -y / (2 * a);
    case Op::Cbrt: return y == 0 ? 0 : 1 / (3 * y * y);
    case Op::Exp: return y;
    case Op::Exp2: return y * kLog2;
    case Op::Expm1: return std::exp(a);
    case Op::Log: return 1 / a;
    case Op::Log2: return 1 / (a * kLog2);
    case Op::Log10: return 1 / (a * kLog10);
    case Op::Log1p: return 1 / (1 + a);
    case Op::Sin: return std::cos(a);
    case Op::Cos: return -std::sin(a);
    case Op::Tan: return 1 + y * y;
    case Op::Atan: return 1 / (1 + a * a);
    case Op::Sinh: return std::cosh(a);
    case Op::Cosh: return std::sinh(a);
    case Op::Tanh: return 1 / (std::cosh(a) * std::cosh(a));
    case Op::Asinh: return 1 / std::hypot(a, Real(1));
    case Op::Abs: return a > 0 ? 1 : (a < 0 ? -1 : 0);
    case Op::Sigmoid: return y * (1 - y);
    default: return std::numeric_limits<Real>::quiet_NaN();
  }
}

/// Of min and max: half to each at ties.
std::array<Real, 3> chosen(bool first, bool tie) {
  if (tie) return {0.5L, 0.5L, 0};
  return {first ? 1.0L : 0.0L, first ? 0.0L : 1.0L, 0};
}

/// Slopes of y = op(a) by operand.
std::array<Real, 3> slopes(Op op, const std::array<Real, 3>& a, Real y) {
  switch (op) {
    case Op::Add: return {1, 1, 0};
    case Op::Sub: return {1, -1, 0};
    case Op::Mul: return {a[1], a[0], 0};
    case Op::Zmul: return {a[0] == 0 ? 0 : a[1], a[0], 0};
    case Op::Fma: return {a[1], a[0], 1};
    case Op::Div: return {1 / a[1], -y / a[1], 0};
    case Op::Hypot: return {y == 0 ? 0 : a[0] / y, y == 0 ? 0 : a[1] / y, 0};
    case Op::Atan2: {
      const Real r = std::hypot(a[0], a[1]);
      return {r == 0 ? 0 : a[1] / r / r, r == 0 ? 0 : -a[0] / r / r, 0};
    }
    case Op::Min: return chosen(a[0] < a[1], a[0] == a[1]);
    case Op::Max: return chosen(a[0] > a[1], a[0] == a[1]);
    case Op::Select: return {0, a[0] != 0 ? 1.0L : 0.0L, a[0] != 0 ? 0.0L : 1.0L};
    default: break;
  }
  const ir::OpInfo& row = ir::info(op);
  if (row.boolean || (row.steps && op != Op::Mod)) return {};
  if (row.arity == 1) {
    const Real rule = slope(op, a[0], y);
    if (!std::isnan(rule)) return {rule, 0, 0};
  }
  std::array<Real, 3> out = {};
  for (int k = 0; k < row.arity; ++k) out[k] = difference(op, a, k);
  return out;
}

/// Numbers of one instance.
struct Instance {
  ir::Inputs<Real> in;
  std::vector<Real> parameters, data, uniforms;
  std::vector<std::uint32_t> scalars;
};

void read(const Problem& problem, std::size_t t, std::size_t i, std::span<const Real> x,
          Instance& out) {
  const ir::LeafCounts& leaves = problem.topology(t).program.leaves;
  const ir::Batch& batch = problem.batch(t);
  out.parameters.resize(leaves.parameters);
  out.scalars.resize(leaves.parameters);
  out.data.resize(leaves.data);
  out.uniforms.resize(leaves.uniforms);
  for (std::uint32_t k = 0; k < leaves.parameters; ++k) {
    out.scalars[k] = batch.index(i, k);
    out.parameters[k] = x[out.scalars[k]];
  }
  for (std::uint32_t k = 0; k < leaves.data; ++k) out.data[k] = batch.data(i, k);
  for (std::uint32_t k = 0; k < leaves.uniforms; ++k)
    out.uniforms[k] = problem.uniforms()[batch.index(i, leaves.parameters + k)];
  out.in = {};
  out.in.parameters = out.parameters;
  out.in.data = out.data;
  out.in.uniforms = out.uniforms;
}

/// Derivatives of output `id` by the program's parameters, backwards.
std::vector<Real> pull_back(const ir::Program& program, const std::vector<Real>& values, ir::Id id,
                            std::size_t parameters) {
  std::vector<Real> adjoint(program.nodes.size()), out(parameters);
  adjoint[id] = 1;
  for (std::size_t k = id + 1; k-- > 0;) {
    if (adjoint[k] == 0) continue;
    const ir::Node& node = program.nodes[k];
    if (node.op == Op::Parameter) out[node.slot()] += adjoint[k];
    if (ir::is_leaf(node.op)) continue;
    std::array<Real, 3> a = {};
    const auto operands = node.operands();
    for (std::size_t j = 0; j < operands.size(); ++j) a[j] = values[operands[j]];
    const std::array<Real, 3> by = slopes(node.op, a, values[k]);
    for (std::size_t j = 0; j < operands.size(); ++j)
      if (by[j] != 0) adjoint[operands[j]] += adjoint[k] * by[j];
  }
  return out;
}

/// ρ and ρ′ at s.
std::array<Real, 2> loss_at(const Loss& loss, Real s) {
  if (loss.is_trivial()) return {s, 1};
  const ir::Program& program = *loss.program();
  const std::vector<Real> parameter = {s};
  std::vector<Real> uniforms;
  for (const double u : loss.uniforms()) uniforms.push_back(u);
  ir::Inputs<Real> in;
  in.parameters = parameter;
  in.uniforms = uniforms;
  const std::vector<Real> values = ir::evaluate_nodes<Real>(program, in);
  const ir::Id out = program.outputs[0];
  return {values[out], pull_back(program, values, out, 1)[0]};
}

template <class F>
void for_instances(const Problem& problem, std::span<const Real> x, const F& f) {
  Instance instance;
  for (std::size_t t = 0; t < problem.topology_count(); ++t) {
    const ir::Program& program = problem.topology(t).program;
    for (std::size_t i = 0; i < problem.batch(t).size(); ++i) {
      read(problem, t, i, x, instance);
      f(program, instance, ir::evaluate_nodes<Real>(program, instance.in), problem.loss(t, i));
    }
  }
}

/// Tangents of the free coordinates: scalars of x that they move, and how.
struct Coordinate {
  std::vector<std::pair<std::uint32_t, Real>> moves;
  bool manifold = false;
};

std::vector<Coordinate> coordinates(const Problem& problem, std::span<const Real> x) {
  std::vector<Coordinate> out;
  const auto fixed = problem.constant_mask();
  const auto is_fixed = [&](std::uint32_t k) { return !fixed.empty() && fixed[k] != 0; };
  for (std::size_t a = 0; a < problem.arrays().size(); ++a) {
    const ParameterArray& array = problem.arrays()[a];
    if (array.values == nullptr) continue;
    for (std::uint32_t b = 0; b < array.blocks; ++b) {
      const std::uint32_t first = array.offset + b * array.width;
      const Manifold* const manifold = problem.manifold(a, b);
      if (manifold == nullptr) {
        for (std::uint32_t k = first; k < first + array.width; ++k)
          if (!is_fixed(k)) out.push_back({{{k, 1}}});
        continue;
      }
      bool all_fixed = true;
      std::vector<double> at(array.width);
      for (std::uint32_t k = 0; k < array.width; ++k) {
        at[k] = static_cast<double>(x[first + k]);
        all_fixed = all_fixed && is_fixed(first + k);
      }
      if (all_fixed) continue;
      const int t = manifold->tangent_size();
      std::vector<double> jacobian(at.size() * static_cast<std::size_t>(t));
      manifold->plus_jacobian(at.data(), jacobian.data());
      for (int j = 0; j < t; ++j) {
        Coordinate c{.manifold = true};
        for (std::uint32_t k = 0; k < array.width; ++k)
          c.moves.emplace_back(first + k, jacobian[k * static_cast<std::size_t>(t) + j]);
        out.push_back(std::move(c));
      }
    }
  }
  return out;
}

Real norm(const std::vector<Real>& v) {
  Real most = 0, sum = 0;
  for (const Real a : v) most = std::max(most, std::fabs(a));
  if (most == 0) return 0;
  for (const Real a : v) sum += (a / most) * (a / most);
  return most * std::sqrt(sum);
}

/// Minimiser of ‖r + Jδ‖ by Householder's QR with pivots over scaled columns; columns that the
/// others span to 1e-13 stay.
std::vector<Real> least_squares(std::vector<std::vector<Real>> cols, std::vector<Real> r) {
  const std::size_t n = cols.size(), m = r.size();
  std::vector<Real> unit(n), out(n);
  for (std::size_t j = 0; j < n; ++j) {
    unit[j] = norm(cols[j]);
    for (Real& c : cols[j]) c = unit[j] > 0 ? c / unit[j] : 0;
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::size_t rank = 0;
  const auto rest = [&](std::size_t j) {
    Real sum = 0;
    for (std::size_t i = rank; i < m; ++i) sum += cols[j][i] * cols[j][i];
    return std::sqrt(sum);
  };
  const auto reflect = [&](const std::vector<Real>& v, Real vv, std::vector<Real>& w) {
    Real dot = 0;
    for (std::size_t i = rank; i < m; ++i) dot += v[i] * w[i];
    for (std::size_t i = rank; i < m; ++i) w[i] -= 2 * dot / vv * v[i];
  };
  for (; rank < std::min(n, m); ++rank) {
    const auto best =
        std::max_element(order.begin() + static_cast<std::ptrdiff_t>(rank), order.end(),
                         [&](std::size_t a, std::size_t b) { return rest(a) < rest(b); });
    std::iter_swap(order.begin() + static_cast<std::ptrdiff_t>(rank), best);
    std::vector<Real>& pivot = cols[order[rank]];
    const Real length = rest(order[rank]);
    if (length < 1e-13L) break;
    std::vector<Real> v = pivot;
    v[rank] += v[rank] < 0 ? -length : length;
    Real vv = 0;
    for (std::size_t i = rank; i < m; ++i) vv += v[i] * v[i];
    for (std::size_t j = rank; j < n; ++j) reflect(v, vv, cols[order[j]]);
    reflect(v, vv, r);
  }
  for (std::size_t k = rank; k-- > 0;) {
    Real sum = -r[k];
    for (std::size_t j = k + 1; j < rank; ++j) sum -= cols[order[j]][k] * out[order[j]];
    out[order[k]] = sum / cols[order[k]][k];
  }
  for (std::size_t j = 0; j < n; ++j) out[j] = unit[j] > 0 ? out[j] / unit[j] : 0;
  return out;
}

constexpr std::size_t kMostDense = 40;
constexpr double kLargeCosine = 1e-2;

/// True if the square of a norm is a double.
bool is_seen(Real norm) { return norm > 1e-150L; }

/// Share of the cost that a step, or a part of it, takes or promises, whichever is less: as far as
/// the cost falls on the way. What lies behind a rise is another valley.
double share_of(const Problem& problem, std::span<const Real> x, const Linearized& at,
                std::span<const Real> step, Real promised) {
  const auto lower = problem.lower_bounds(), upper = problem.upper_bounds();
  Real least = at.cost;
  for (const Real length : {1e-7L, 1e-6L, 1e-5L, 1e-4L, 1e-3L, 0.01L, 0.03L, 0.1L, 0.3L, 1.0L}) {
    std::vector<Real> y(x.begin(), x.end());
    for (std::size_t j = 0; j < step.size(); ++j) {
      const std::uint32_t k = at.scalar[j];
      y[k] += length * step[j];
      if (!lower.empty()) y[k] = std::max<Real>(y[k], lower[k]);
      if (!upper.empty()) y[k] = std::min<Real>(y[k], upper[k]);
    }
    const Real cost = cost_at(problem, y);
    if (!(cost <= least)) break;
    least = cost;
  }
  return static_cast<double>(std::min(at.cost - least, promised) / at.cost);
}

/// Returns share_of() for the Gauss–Newton step.
double newton_gain(const Problem& problem, std::span<const Real> x, const Linearized& at) {
  if (at.has_manifolds || at.cols.size() > kMostDense || !(at.cost > 0)) return 0;
  std::vector<std::vector<Real>> cols = at.cols;
  for (std::size_t j = 0; j < cols.size(); ++j)
    if (at.held[j] || !is_seen(at.norms[j])) std::ranges::fill(cols[j], 0);
  const std::vector<Real> step = least_squares(cols, at.rows);
  Real promised = 0;
  for (std::size_t j = 0; j < step.size(); ++j) promised -= at.gradient[j] * step[j] / 2;
  return share_of(problem, x, at, step, promised);
}

/// Returns share_of() for the step that divides each coordinate of the negative gradient by ‖J_i‖².
double descent_gain(const Problem& problem, std::span<const Real> x, const Linearized& at) {
  if (at.has_manifolds || !(at.cost > 0)) return 0;
  std::vector<Real> step(at.gradient.size());
  Real promised = 0;
  for (std::size_t j = 0; j < step.size(); ++j) {
    if (at.held[j] || !is_seen(at.norms[j])) continue;
    step[j] = -at.gradient[j] / (at.norms[j] * at.norms[j]);
    promised -= at.gradient[j] * step[j] / 2;
  }
  return share_of(problem, x, at, step, promised);
}

/// Sum of the shares of the cost that moves of single coordinates along their slopes take. They are
/// as long as that of the linear model, or shorter by powers of 4.
double single_gain(const Problem& problem, std::span<const Real> x, const Linearized& at) {
  constexpr int kLengths = 64;
  const Real size = std::sqrt(2 * at.cost);
  std::vector<Real> y(x.begin(), x.end());
  Real sum = 0;
  for (std::size_t j = 0; j < at.gradient.size(); ++j) {
    if (at.held[j] || !is_seen(at.norms[j]) || at.gradient[j] == 0) continue;
    const std::uint32_t k = at.scalar[j];
    Real length = (at.gradient[j] > 0 ? -size : size) / at.norms[j], least = at.cost;
    for (int i = 0; i < kLengths; ++i, length /= 4) {
      y[k] = x[k] + length;
      const Real cost = cost_at(problem, y);
      if (cost < least) least = cost;
    }
    y[k] = x[k];
    sum += (at.cost - least) / at.cost;
  }
  return static_cast<double>(sum);
}

}  // namespace

bool can_judge(const Problem& problem) {
  if (problem.energy_count() > 0 || problem.constraint_count() > 0 ||
      !problem.host_blocks().empty())
    return false;
  for (std::size_t t = 0; t < problem.topology_count(); ++t)
    for (std::size_t i = 0; i < problem.batch(t).size(); ++i)
      if (problem.loss(t, i).is_host()) return false;
  return true;
}

Real cost_at(const Problem& problem, std::span<const Real> x) {
  Real sum = 0;
  for_instances(problem, x,
                [&](const ir::Program& program, const Instance&, const std::vector<Real>& values,
                    const Loss& loss) {
                  Real s = 0;
                  for (const ir::Id id : program.outputs) s += values[id] * values[id];
                  sum += loss_at(loss, s)[0];
                });
  return sum / 2;
}

Linearized linearize(const Problem& problem, std::span<const Real> x) {
  Linearized out;
  const std::vector<Coordinate> free = coordinates(problem, x);
  // The coordinates that move a scalar.
  std::vector<std::vector<std::pair<std::size_t, Real>>> of(x.size());
  for (std::size_t j = 0; j < free.size(); ++j) {
    for (const auto& [k, by] : free[j].moves) of[k].emplace_back(j, by);
    out.scalar.push_back(free[j].moves[0].first);
    out.has_manifolds = out.has_manifolds || free[j].manifold;
  }
  out.cols.assign(free.size(), {});
  struct Entry {
    std::size_t row, col;
    Real value;
  };
  std::vector<Entry> entries;
  for_instances(problem, x,
                [&](const ir::Program& program, const Instance& instance,
                    const std::vector<Real>& values, const Loss& loss) {
                  Real s = 0;
                  for (const ir::Id id : program.outputs) s += values[id] * values[id];
                  const auto [rho, slope] = loss_at(loss, s);
                  out.cost += rho / 2;
                  const Real weight = std::sqrt(std::max<Real>(slope, 0));
                  for (const ir::Id id : program.outputs) {
                    const std::vector<Real> by =
                        pull_back(program, values, id, instance.scalars.size());
                    for (std::size_t p = 0; p < by.size(); ++p)
                      for (const auto& [j, move] : of[instance.scalars[p]])
                        if (by[p] != 0)
                          entries.push_back({out.rows.size(), j, weight * by[p] * move});
                    out.rows.push_back(weight * values[id]);
                  }
                });
  if (free.size() * out.rows.size() <= 4'000'000) {
    for (auto& col : out.cols) col.assign(out.rows.size(), 0);
  } else {
    out.cols.clear();  // too large to be kept
  }
  out.gradient.assign(free.size(), 0);
  out.norms.assign(free.size(), 0);
  std::vector<std::vector<std::pair<std::size_t, Real>>> sparse(free.size());
  for (const Entry& e : entries) {
    out.gradient[e.col] += e.value * out.rows[e.row];
    // One row reads an unknown once, unless its instance reads a scalar twice.
    auto& last = sparse[e.col];
    if (!last.empty() && last.back().first == e.row) {
      last.back().second += e.value;
    } else {
      last.emplace_back(e.row, e.value);
    }
    if (!out.cols.empty()) out.cols[e.col][e.row] += e.value;
  }
  for (std::size_t j = 0; j < free.size(); ++j) {
    std::vector<Real> col;
    for (const auto& [row, value] : sparse[j]) col.push_back(value);
    out.norms[j] = norm(col);
  }
  const auto lower = problem.lower_bounds(), upper = problem.upper_bounds();
  for (std::size_t j = 0; j < free.size(); ++j) {
    bool held = false;
    if (!free[j].manifold) {
      const std::uint32_t k = out.scalar[j];
      // The caller's x has the bits of the bound that holds it.
      held = (!lower.empty() && x[k] <= static_cast<Real>(lower[k]) && out.gradient[j] > 0) ||
             (!upper.empty() && x[k] >= static_cast<Real>(upper[k]) && out.gradient[j] < 0);
    }
    out.held.push_back(held);
  }
  return out;
}

Judged judge(const Problem& problem, std::span<const Real> x) {
  const Linearized at = linearize(problem, x);
  Judged out{.cost = at.cost};
  const Real size = std::sqrt(2 * at.cost);
  Real scaled_x = 0;
  for (std::size_t j = 0; j < at.gradient.size(); ++j) {
    if (!is_seen(at.norms[j])) continue;
    const Real moved = at.norms[j] * x[at.scalar[j]];
    scaled_x += moved * moved;
    if (at.held[j]) continue;
    const Real g = std::fabs(at.gradient[j]);
    out.gradient_max = std::max(out.gradient_max, g);
    out.scaled_gradient = std::max(out.scaled_gradient, static_cast<double>(g / at.norms[j]));
  }
  out.scaled_x = static_cast<double>(std::sqrt(scaled_x));
  out.cosine = size > 0 ? static_cast<double>(out.scaled_gradient / size) : 0;
  if (!at.cols.empty()) out.gain = newton_gain(problem, x, at);
  const bool few = at.gradient.size() <= kMostDense && !at.has_manifolds && at.cost > 0;
  if (few && out.cosine > kLargeCosine) out.single = single_gain(problem, x, at);
  out.descent = descent_gain(problem, x, at);
  return out;
}

Judged judge(const Problem& problem) {
  std::vector<double> x(problem.parameter_count());
  problem.read_x(x);
  return judge(problem, std::vector<Real>(x.begin(), x.end()));
}

namespace {

constexpr double kMostGain = 1e-4;

/// ‖r‖ as Summary::optimality counts it.
double unit_of(const Judged& at, double initial_cost) {
  const double start = std::sqrt(2 * std::max(initial_cost, 0.0));
  const double rounded = std::min(1e-4 * start, 1e-5 * at.scaled_x);
  const double norm = std::sqrt(2 * static_cast<double>(at.cost));
  const double unit = std::max({norm, rounded, 1e-10 * start});
  // A start that is farther away than rounding reaches says nothing.
  return norm < 1e-18 * start ? std::max(std::min(unit, 1e6 * norm), 1e-5 * at.scaled_x) : unit;
}

/// What rounding of terms as large as J x may do to the cost.
double noise_of(const Judged& at, double unit) {
  const double terms = unit * at.scaled_x, cost = std::fabs(static_cast<double>(at.cost));
  return 8 * unit * cost + terms * (std::sqrt(2 * cost) + terms / 2);
}

bool is_least_squares(Method method) {
  return method == Method::levenberg_marquardt || method == Method::gauss_newton ||
         method == Method::dogleg;
}

std::string against_gradient(const Judged& at, const SolverOptions& options,
                             const Summary& summary) {
  const double unit = unit_of(at, summary.initial_cost);
  const double cosine = unit > 0 ? at.scaled_gradient / unit : 0;
  // Methods for any cost have another measure of the gradient.
  const bool by_gradient =
      is_least_squares(summary.method) && summary.message.starts_with("gradient tolerance");
  const double share = std::max(options.function_tolerance, options.parameter_tolerance);
  // Rounding of the residuals turns them against the columns.
  const double rounding = 64 * 0x1p-52 * (1 + at.scaled_x / std::max(unit, 1e-300));
  const double most =
      by_gradient ? 2 * options.gradient_tolerance + rounding : 10 * std::sqrt(share);
  const double gradient = at.scaled_gradient;
  // Methods for any cost know other curvature than that of the linear model.
  const bool takes =
      is_least_squares(summary.method) ? at.single > most * most : at.descent > kMostGain;
  if (takes && cosine > most && gradient * gradient > noise_of(at, 0x1p-52))
    return platform::formatted("cosine %.3e > %.3e", cosine, most);
  // Both are far below every bound where next to nothing is left of the cost.
  const bool left = static_cast<double>(at.cost) > 1e-36 * summary.initial_cost;
  const double said = summary.optimality;  // of components: the largest one's
  if (left && is_least_squares(summary.method) && !summary.components.separate &&
      std::fabs(said - cosine) > 1e-3 * cosine + 16 * rounding)
    return platform::formatted("cosine %.6e, optimality says %.6e", cosine, said);
  return {};
}

}  // namespace

std::string contradiction(const Problem& problem, const SolverOptions& options,
                          const Summary& summary) {
  if (summary.termination == Termination::FAILURE) return {};
  const Judged at = judge(problem);
  const bool f64 = summary.precision == Precision::f64;
  const double unit = f64 ? 0x1p-52 : 0x1p-23;
  const double cost = static_cast<double>(at.cost);
  const double apart = std::fabs(cost - summary.final_cost);
  if (!(apart <= 1e4 * unit * std::fabs(cost) + 100 * noise_of(at, unit)))
    return platform::formatted("cost %.17g, final_cost says %.17g", cost, summary.final_cost);
  if (summary.termination != Termination::CONVERGENCE || !options.scale_free || !f64) return {};
  const std::string gradient = against_gradient(at, options, summary);
  if (!gradient.empty()) return gradient;
  const bool settled = cost <= 1e-16 * summary.initial_cost || cost <= noise_of(at, unit);
  if (!settled && at.gain > kMostGain)
    return platform::formatted("a Gauss-Newton step takes %.3e of the cost", at.gain);
  return {};
}

}  // namespace topograd::test
