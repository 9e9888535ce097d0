// Robust losses: chains of built-in and custom stages, and their programs.
#include "loss.hpp"

#include "../autodiff/derivatives.hpp"
#include "../ir/error.hpp"
#include "../ir/evaluate.hpp"
#include "../ir/graph.hpp"
#include "traced_function.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace topograd {
namespace detail {

/// A user-defined loss with its derivatives.
struct TracedLoss {
  explicit TracedLoss(TracedFunction function)
      : value(std::move(function)),
        slope(autodiff::jacobian(value.program, kArgument)),
        curvature(autodiff::jacobian(slope, kArgument)) {}

  static constexpr std::array<std::uint32_t, 1> kArgument = {0};
  TracedFunction value;
  ir::Program slope, curvature;
};

/// One function of a composition: a built-in loss, or a traced one whose data are uniforms.
struct LossStage {
  Loss::Kind kind = Loss::Kind::trivial;
  double a = 1, b = 1, scale = 1;
  std::shared_ptr<const TracedLoss> traced;  // null for built-in losses
  std::string name;                          // name of a traced loss
  friend bool operator==(const LossStage&, const LossStage&) = default;
};

struct LossChain {
  std::vector<LossStage> stages;  ///< innermost first; empty for a host loss
  ir::Program program;
  std::function<void(double, double*)> host;
  double host_scale = 1;
  std::string host_name;
};

namespace {

constexpr std::uint32_t kStageUniforms = 5;  // kind, a, b, c, scale
// For larger x, e^x + 1 equals e^x in double: log 2^53.
constexpr double kLargestExponent = 36.7;

/// Builds expressions on a graph.
struct Writer {
  ir::Graph& graph;
  using Id = ir::Id;

  Id number(double value) { return graph.literal(value); }
  Id add(Id a, Id b) { return graph.add(ir::Op::Add, a, b); }
  Id sub(Id a, Id b) { return graph.add(ir::Op::Sub, a, b); }
  Id mul(Id a, Id b) { return graph.add(ir::Op::Mul, a, b); }
  Id div(Id a, Id b) { return graph.add(ir::Op::Div, a, b); }
  Id select(Id condition, Id a, Id b) { return graph.add(ir::Op::Select, condition, a, b); }
};

/// ρ(s) of all built-in kinds, with one square root, exponential, logarithm and arctangent for all
/// of them. `u` is the first of the stage's uniforms. c is 1 / b with b = a²; for the tolerant loss
/// it is its value at 0.
ir::Id built_in_stage(ir::Graph& graph, ir::Id s, std::uint32_t u) {
  Writer w{graph};
  const auto uniform = [&](std::uint32_t k) { return graph.leaf(ir::Op::Uniform, u + k); };
  const ir::Id kind = uniform(0), a = uniform(1), b = uniform(2), c = uniform(3);
  const auto is = [&](Loss::Kind k) {
    return graph.add(ir::Op::Eq, kind, w.number(static_cast<double>(k)));
  };
  const ir::Id one = w.number(1), two = w.number(2), three = w.number(3);
  const ir::Id part = w.mul(s, c);
  const ir::Id is_huber = is(Loss::Kind::huber), is_tolerant = is(Loss::Kind::tolerant);
  const ir::Id root = graph.add(ir::Op::Sqrt, w.select(is_huber, s, w.add(one, part)));
  const ir::Id huber =
      w.select(graph.add(ir::Op::Gt, s, b), w.sub(w.mul(w.mul(two, a), root), b), s);
  // 2 b (√(1 + s/b) − 1) without cancellation.
  const ir::Id soft_l1 = w.div(w.mul(two, s), w.add(root, one));
  const ir::Id x = w.div(w.sub(s, a), b);
  const ir::Id log =
      graph.add(ir::Op::Log1p, w.select(is_tolerant, graph.add(ir::Op::Exp, x), part));
  const ir::Id cauchy = w.mul(b, log);
  const ir::Id far = graph.add(ir::Op::Gt, x, w.number(kLargestExponent));
  const ir::Id tolerant = w.sub(w.select(far, w.sub(s, a), cauchy), c);
  const ir::Id arctan = w.mul(a, graph.add(ir::Op::Atan, w.div(s, a)));
  // s (1 − t + t²/3), t = s/b: the cubic without cancellation.
  const ir::Id cubic =
      w.mul(s, w.add(w.sub(one, part), w.div(graph.add(ir::Op::Square, part), three)));
  const ir::Id tukey = w.select(graph.add(ir::Op::Le, s, b), cubic, w.div(b, three));
  ir::Id rho = s;
  const std::pair<Loss::Kind, ir::Id> kinds[] = {
      {Loss::Kind::tukey, tukey},   {Loss::Kind::arctan, arctan},
      {Loss::Kind::cauchy, cauchy}, {Loss::Kind::soft_l1, soft_l1},
      {Loss::Kind::huber, huber},   {Loss::Kind::tolerant, tolerant}};
  for (const auto& [k, value] : kinds) rho = w.select(is(k), value, rho);
  return w.mul(uniform(4), rho);
}

/// The traced function with its data as uniforms, multiplied by the stage's scale.
ir::Id traced_stage(ir::Graph& graph, const TracedFunction& f, ir::Id s, std::uint32_t u) {
  std::vector<ir::Id> map;
  for (const ir::Node& node : f.program.nodes) {
    switch (node.op) {
      case ir::Op::Parameter: map.push_back(s); break;
      case ir::Op::Data: map.push_back(graph.leaf(ir::Op::Uniform, u + node.slot())); break;
      default: map.push_back(graph.copy(node, map)); break;
    }
  }
  const auto numbers = static_cast<std::uint32_t>(f.numbers.size());
  return graph.add(ir::Op::Mul, graph.leaf(ir::Op::Uniform, u + numbers),
                   map[f.program.outputs[0]]);
}

ir::Program program_of(std::span<const LossStage> stages) {
  ir::Graph graph;
  ir::Id rho = graph.leaf(ir::Op::Parameter, 0);
  std::uint32_t uniforms = 0;
  for (const LossStage& stage : stages) {
    rho = stage.traced ? traced_stage(graph, stage.traced->value, rho, uniforms)
                       : built_in_stage(graph, rho, uniforms);
    uniforms += stage.traced ? static_cast<std::uint32_t>(stage.traced->value.numbers.size()) + 1
                             : kStageUniforms;
  }
  return graph.extract(std::span(&rho, 1), {.parameters = 1, .uniforms = uniforms});
}

void append_uniforms(const LossStage& stage, std::vector<double>& out) {
  if (stage.traced) {
    const std::vector<double>& numbers = stage.traced->value.numbers;
    out.insert(out.end(), numbers.begin(), numbers.end());
    out.push_back(stage.scale);
    return;
  }
  const bool tolerant = stage.kind == Loss::Kind::tolerant;
  const double a = stage.a, b = tolerant ? stage.b : a * a;
  const double c = tolerant ? b * std::log1p(std::exp(-a / b)) : 1 / b;
  out.insert(out.end(), {static_cast<double>(stage.kind), a, b, c, stage.scale});
}

using Rho = std::array<double, 3>;  // ρ, ρ′, ρ″

Rho tolerant_at(double a, double b, double s) {
  const double x = (s - a) / b, c = b * std::log1p(std::exp(-a / b));
  if (x > kLargestExponent) return {s - a - c, 1, 0};
  const double e = std::exp(x);
  return {b * std::log1p(e) - c, e / (1 + e), 0.5 / (b * (1 + std::cosh(x)))};
}

Rho built_in_at(const LossStage& stage, double s) {
  const double a = stage.a, b = a * a, t = s / b;
  switch (stage.kind) {
    case Loss::Kind::trivial: return {s, 1, 0};
    case Loss::Kind::huber: {
      const double root = std::sqrt(s);
      return s > b ? Rho{2 * a * root - b, a / root, -a / (2 * s * root)} : Rho{s, 1, 0};
    }
    case Loss::Kind::soft_l1: {
      const double root = std::sqrt(1 + t);
      return {2 * s / (root + 1), 1 / root, -1 / (2 * b * root * (1 + t))};
    }
    case Loss::Kind::cauchy: return {b * std::log1p(t), 1 / (1 + t), -1 / (b * (1 + t) * (1 + t))};
    case Loss::Kind::arctan: {
      const double sum = 1 + s * t;
      return {a * std::atan(s / a), 1 / sum, -2 * t / (sum * sum)};
    }
    case Loss::Kind::tukey:
      return s <= b ? Rho{s * (1 - t + t * t / 3), (1 - t) * (1 - t), -2 * (1 - t) / b}
                    : Rho{b / 3, 0, 0};
    case Loss::Kind::tolerant: return tolerant_at(a, stage.b, s);
  }
  return {};
}

Rho stage_at(const LossStage& stage, double s) {
  Rho rho = {};
  if (stage.traced) {
    const TracedLoss& f = *stage.traced;
    const ir::Inputs<double> in{std::span(&s, 1), f.value.numbers, {}, {}, {}};
    rho = {ir::evaluate(f.value.program, in)[0], ir::evaluate(f.slope, in)[0],
           ir::evaluate(f.curvature, in)[0]};
  } else {
    rho = built_in_at(stage, s);
  }
  for (double& value : rho) value *= stage.scale;
  return rho;
}

/// f(g(s)) by the chain rule.
Rho chained(const Rho& f, const Rho& g) {
  return {f[0], f[1] * g[1], f[2] * g[1] * g[1] + f[1] * g[2]};
}

const ir::Program& one_stage_program() {
  static const ir::Program& program = *new ir::Program(program_of(std::vector<LossStage>(1)));
  return program;
}

/// "0.5", "-1e+300", "nan".
std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

void check(bool ok, const std::string& loss, const char* field, const char* range, double value) {
  if (ok) return;
  throw Error(ErrorCode::InvalidArgument,
              loss + " loss: " + field + " must be " + range + ", got " + number(value));
}

double checked_scale(const char* loss, double a) {
  check(std::isfinite(a) && a > 0, loss, "scale a", "a finite number > 0", a);
  return a;
}

const char* name(Loss::Kind kind) {
  switch (kind) {
    case Loss::Kind::trivial: return "trivial";
    case Loss::Kind::huber: return "huber";
    case Loss::Kind::soft_l1: return "soft_l1";
    case Loss::Kind::cauchy: return "cauchy";
    case Loss::Kind::arctan: return "arctan";
    case Loss::Kind::tukey: return "tukey";
    case Loss::Kind::tolerant: return "tolerant";
  }
  return "";
}

std::string scaled_text(std::string text, double scale) {
  return scale == 1 ? text : "scaled(" + text + ", " + number(scale) + ")";
}

std::string describe(const LossStage& stage) {
  std::string text = stage.traced ? stage.name : name(stage.kind);
  if (!stage.traced && stage.kind != Loss::Kind::trivial) {
    text += "(" + number(stage.a);
    if (stage.kind == Loss::Kind::tolerant) text += ", " + number(stage.b);
    text += ")";
  }
  return scaled_text(text, stage.scale);
}

}  // namespace

/// A loss as its stages.
struct LossForm {
  static std::vector<LossStage> stages(const Loss& loss) {
    if (loss.chain_) return loss.chain_->stages;
    return {{loss.kind_, loss.a_, loss.b_, loss.scale_, nullptr, {}}};
  }
  static Loss of(std::vector<LossStage> stages) {
    Loss loss;
    if (stages.size() == 1 && !stages[0].traced) {
      loss.kind_ = stages[0].kind;
      loss.a_ = stages[0].a;
      loss.b_ = stages[0].b;
      loss.scale_ = stages[0].scale;
      return loss;
    }
    LossChain chain;
    chain.program = program_of(stages);
    chain.stages = std::move(stages);
    loss.chain_ = std::make_shared<const LossChain>(std::move(chain));
    return loss;
  }
  static Loss of(Loss::Kind kind, double a, double b = 1) {
    return of({{kind, a, b, 1, nullptr, {}}});
  }
  static Loss of_host(LossChain chain) {
    Loss loss;
    loss.chain_ = std::make_shared<const LossChain>(std::move(chain));
    return loss;
  }
  static const LossChain* chain(const Loss& loss) { return loss.chain_.get(); }
};

}  // namespace detail

using detail::LossForm;

Loss Loss::huber(double a) { return LossForm::of(Kind::huber, detail::checked_scale("huber", a)); }
Loss Loss::soft_l1(double a) {
  return LossForm::of(Kind::soft_l1, detail::checked_scale("soft_l1", a));
}
Loss Loss::cauchy(double a) {
  return LossForm::of(Kind::cauchy, detail::checked_scale("cauchy", a));
}
Loss Loss::arctan(double a) {
  return LossForm::of(Kind::arctan, detail::checked_scale("arctan", a));
}
Loss Loss::tukey(double a) { return LossForm::of(Kind::tukey, detail::checked_scale("tukey", a)); }
Loss Loss::tolerant(double a, double b) {
  detail::check(std::isfinite(a) && a >= 0, "tolerant", "a", "a finite number >= 0", a);
  detail::check(std::isfinite(b) && b > 0, "tolerant", "b", "a finite number > 0", b);
  return LossForm::of(Kind::tolerant, a, b);
}

Loss Loss::scaled(const Loss& loss, double scale) {
  detail::check(std::isfinite(scale) && scale >= 0, "scaled " + loss.describe(), "scale",
                "a finite number >= 0", scale);
  if (loss.is_host()) {
    detail::LossChain chain = *LossForm::chain(loss);
    chain.host_scale *= scale;
    return LossForm::of_host(std::move(chain));
  }
  std::vector<detail::LossStage> stages = LossForm::stages(loss);
  stages.back().scale *= scale;
  return LossForm::of(std::move(stages));
}

Loss Loss::composed(const Loss& f, const Loss& g) {
  if (f.is_host() || g.is_host()) {
    return host(
        [f, g](double s, double rho[3]) {
          const std::array<double, 3> inner = g.evaluate(s);
          const std::array<double, 3> both = detail::chained(f.evaluate(inner[0]), inner);
          std::copy(both.begin(), both.end(), rho);
        },
        "composed(" + f.describe() + ", " + g.describe() + ")");
  }
  if (f.is_trivial()) return g;
  if (g.is_trivial()) return f;
  std::vector<detail::LossStage> stages = LossForm::stages(g);
  for (const detail::LossStage& stage : LossForm::stages(f)) stages.push_back(stage);
  return LossForm::of(std::move(stages));
}

Loss Loss::custom(const std::function<Value(const Value& s)>& rho, std::string name) {
  const auto rows = [&](std::span<const Value> s) { return std::vector<Value>{rho(s[0])}; };
  auto traced = std::make_shared<const detail::TracedLoss>(detail::trace_function(
      "custom loss", 1, rows,
      {.one = "a residual", .all = "all residuals", .advice = "make a loss for each number"}));
  return LossForm::of({{Kind::trivial, 1, 1, 1, std::move(traced), std::move(name)}});
}

Loss Loss::host(std::function<void(double s, double rho[3])> rho, std::string name) {
  detail::LossChain chain;
  chain.host = std::move(rho);
  chain.host_name = std::move(name);
  return LossForm::of_host(std::move(chain));
}

bool Loss::is_host() const { return chain_ && chain_->host; }

std::array<double, 3> Loss::evaluate(double s) const {
  std::array<double, 3> rho = {s, 1, 0};
  if (is_trivial()) return rho;
  if (is_host()) {
    chain_->host(s, rho.data());
    for (double& value : rho) value *= chain_->host_scale;
    return rho;
  }
  for (const detail::LossStage& stage : LossForm::stages(*this))
    rho = detail::chained(detail::stage_at(stage, rho[0]), rho);
  return rho;
}

std::string Loss::describe() const {
  if (is_host()) return detail::scaled_text(chain_->host_name, chain_->host_scale);
  const std::vector<detail::LossStage> stages = LossForm::stages(*this);
  std::string text = detail::describe(stages[0]);
  for (std::size_t k = 1; k < stages.size(); ++k)
    text = "composed(" + detail::describe(stages[k]) + ", " + text + ")";
  return text;
}

bool operator==(const Loss& x, const Loss& y) {
  if (x.chain_ == y.chain_)
    return x.kind_ == y.kind_ && x.a_ == y.a_ && x.b_ == y.b_ && x.scale_ == y.scale_;
  return x.chain_ && y.chain_ && !x.is_host() && !y.is_host() &&
         x.chain_->stages == y.chain_->stages;
}

const ir::Program* Loss::program() const {
  if (is_host()) return nullptr;
  return chain_ ? &chain_->program : &detail::one_stage_program();
}

std::vector<double> Loss::uniforms() const {
  std::vector<double> out;
  if (is_host()) return out;
  for (const detail::LossStage& stage : LossForm::stages(*this))
    detail::append_uniforms(stage, out);
  return out;
}

}  // namespace topograd
