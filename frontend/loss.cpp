// Robust losses: chains of built-in and custom stages, and their programs.
#include "loss.hpp"

#include "../autodiff/derivatives.hpp"
#include "../ir/enum_table.hpp"
#include "../ir/error.hpp"
#include "../ir/evaluate.hpp"
#include "../ir/machine/formatted.hpp"
#include "../ir/program.hpp"
#include "host_residual.hpp"
#include "traced_function.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>

namespace topograd {
namespace detail {

using Rho = std::array<double, 3>;  // ρ, ρ′, ρ″

/// ρ with its derivatives.
struct DerivedLoss {
  explicit DerivedLoss(ir::Program rho)
      : value(std::move(rho)),
        slope(autodiff::jacobian(value, kArgument)),
        curvature(autodiff::jacobian(slope, kArgument)) {}

  Rho at(double s, std::span<const double> data, std::span<const double> uniforms) const {
    const ir::Inputs<double> in{std::span(&s, 1), data, uniforms, {}, {}};
    return {ir::evaluate(value, in)[0], ir::evaluate(slope, in)[0], ir::evaluate(curvature, in)[0]};
  }

  static constexpr std::array<std::uint32_t, 1> kArgument = {0};
  ir::Program value, slope, curvature;
};

/// A user-defined loss.
struct TracedLoss {
  DerivedLoss rho;
  std::vector<double> numbers;
};

/// One function of a composition: a built-in loss, or a traced one whose data are uniforms.
struct LossStage {
  Loss::Kind kind = Loss::Kind::trivial;
  double a = 1, b = 1;  // of losses that have them
  double scale = 1;
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

constexpr bool has_two_numbers(Loss::Kind kind) {
  return kind != Loss::Kind::trivial && kLosses[static_cast<std::size_t>(kind) - 1].two != nullptr;
}

constexpr std::uint32_t kStageUniforms = 5;  // kind, a, b, c, scale
// For larger x, e^x + 1 equals e^x in double: log 2^53.
constexpr double kLargestExponent = 36.7;

/// A node of a graph, with operators.
struct LossNode {
  ir::Graph* graph;
  ir::Id id;

  LossNode make(ir::Op op, LossNode y) const { return {graph, graph->add(op, id, y.id)}; }
  LossNode make(ir::Op op) const { return {graph, graph->add(op, id)}; }
  LossNode number(double value) const { return {graph, graph->literal(value)}; }

  friend LossNode operator+(LossNode x, LossNode y) { return x.make(ir::Op::Add, y); }
  friend LossNode operator-(LossNode x, LossNode y) { return x.make(ir::Op::Sub, y); }
  friend LossNode operator*(LossNode x, LossNode y) { return x.make(ir::Op::Mul, y); }
  friend LossNode operator/(LossNode x, LossNode y) { return x.make(ir::Op::Div, y); }
  friend LossNode operator+(LossNode x, double y) { return x + x.number(y); }
  friend LossNode operator+(double x, LossNode y) { return y.number(x) + y; }
  friend LossNode operator-(double x, LossNode y) { return y.number(x) - y; }
  friend LossNode operator*(double x, LossNode y) { return y.number(x) * y; }
  friend LossNode operator/(LossNode x, double y) { return x / x.number(y); }
  friend LossNode operator>(LossNode x, LossNode y) { return x.make(ir::Op::Gt, y); }
  friend LossNode operator>(LossNode x, double y) { return x > x.number(y); }
};
LossNode select(LossNode condition, LossNode x, LossNode y) {
  return {x.graph, x.graph->add(ir::Op::Select, condition.id, x.id, y.id)};
}
#define TG_FUNCTION1(function, op) \
  [[maybe_unused]] LossNode function(LossNode x) { return x.make(ir::Op::op); }
#include "value/functions.def"

/// ρ(s) of all built-in kinds, with one square root and logarithm for all of them. `u` is the first
/// of the stage's uniforms. c is 1 / b with b = a²; for the tolerant loss it is its value at 0.
ir::Id built_in_stage(ir::Graph& graph, ir::Id argument, std::uint32_t u) {
  const auto uniform = [&](std::uint32_t k) {
    return LossNode{&graph, graph.leaf(ir::Op::Uniform, u + k)};
  };
  const LossNode s{&graph, argument}, kind = uniform(0), a = uniform(1), b = uniform(2),
                                      c = uniform(3);
  const auto is = [&](Loss::Kind k) {
    return kind.make(ir::Op::Eq, kind.number(static_cast<double>(k)));
  };
  const LossNode part = s * c, x = (s - a) / b;
  const LossNode root = sqrt(select(is(Loss::Kind::huber), s, 1 + part));
  const LossNode log = log1p(select(is(Loss::Kind::tolerant), exp(x), part));
  using Choice = std::pair<Loss::Kind, LossNode>;
  const Choice one[] = {
#define TG_LOSS1(loss, type, rho, ...) {Loss::Kind::loss, rho},
#include "losses.def"
  };
  const Choice two[] = {
#define TG_LOSS2(loss, type, rho, ...) {Loss::Kind::loss, rho},
#include "losses.def"
  };
  LossNode rho = s;
  for (const auto& [k, value] : one | std::views::reverse) rho = select(is(k), value, rho);
  for (const auto& [k, value] : two) rho = select(is(k), value, rho);
  return (uniform(4) * rho).id;
}

/// The traced function with its data as uniforms, multiplied by the stage's scale.
ir::Id traced_stage(ir::Graph& graph, const TracedLoss& f, ir::Id s, std::uint32_t u) {
  std::vector<ir::Id> map;
  const ir::Program& rho = f.rho.value;
  for (const ir::Node& node : rho.nodes) {
    map.push_back(node.op == ir::Op::Parameter ? s
                  : node.op == ir::Op::Data    ? graph.leaf(ir::Op::Uniform, u + node.slot())
                                               : graph.copy(node, map));
  }
  const auto numbers = static_cast<std::uint32_t>(f.numbers.size());
  return graph.add(ir::Op::Mul, graph.leaf(ir::Op::Uniform, u + numbers), map[rho.outputs[0]]);
}

ir::Program program_of(std::span<const LossStage> stages) {
  ir::Graph graph;
  ir::Id rho = graph.leaf(ir::Op::Parameter, 0);
  std::uint32_t uniforms = 0;
  for (const LossStage& stage : stages) {
    rho = stage.traced ? traced_stage(graph, *stage.traced, rho, uniforms)
                       : built_in_stage(graph, rho, uniforms);
    uniforms += stage.traced ? static_cast<std::uint32_t>(stage.traced->numbers.size()) + 1
                             : kStageUniforms;
  }
  return graph.extract(std::span(&rho, 1), {.parameters = 1, .uniforms = uniforms});
}

void append_uniforms(const LossStage& stage, std::vector<double>& out) {
  if (stage.traced) {
    const std::vector<double>& numbers = stage.traced->numbers;
    out.insert(out.end(), numbers.begin(), numbers.end());
    out.push_back(stage.scale);
    return;
  }
  const bool tolerant = stage.kind == Loss::Kind::tolerant;
  const double a = stage.a, b = has_two_numbers(stage.kind) ? stage.b : a * a;
  const double c = tolerant ? b * std::log1p(std::exp(-a / b)) : 1 / b;
  out.insert(out.end(), {static_cast<double>(stage.kind), a, b, c, stage.scale});
}

using ClosedForm = Rho (*)(double s, double a, double b);
// NOLINTNEXTLINE(readability-identifier-naming): a word of losses.def
[[maybe_unused]] constexpr ClosedForm derived = nullptr;

Rho huber_at(double s, double a, double) {
  const double b = a * a, root = std::sqrt(s);
  return s > b ? Rho{2 * a * root - b, a / root, -a / (2 * s * root)} : Rho{s, 1, 0};
}

Rho soft_l1_at(double s, double a, double) {
  const double b = a * a, t = s / b, root = std::sqrt(1 + t);
  return {2 * s / (root + 1), 1 / root, -1 / (2 * b * root * (1 + t))};
}

Rho cauchy_at(double s, double a, double) {
  const double b = a * a, t = s / b;
  return {b * std::log1p(t), 1 / (1 + t), -1 / (b * (1 + t) * (1 + t))};
}

Rho arctan_at(double s, double a, double) {
  const double t = s / (a * a), sum = 1 + s * t;
  return {a * std::atan(s / a), 1 / sum, -2 * t / (sum * sum)};
}

Rho tukey_at(double s, double a, double) {
  const double b = a * a, t = s / b;
  return s > b ? Rho{b / 3, 0, 0}
               : Rho{s * (1 - t + t * t / 3), (1 - t) * (1 - t), -2 * (1 - t) / b};
}

Rho tolerant_at(double s, double a, double b) {
  const double x = (s - a) / b, c = b * std::log1p(std::exp(-a / b));
  if (x > kLargestExponent) return {s - a - c, 1, 0};
  const double e = std::exp(x);
  return {b * std::log1p(e) - c, e / (1 + e), 0.5 / (b * (1 + std::cosh(x)))};
}

/// By kind after the trivial one.
constexpr ClosedForm kClosedForms[] = {
#define TG_LOSS1(loss, type, rho, at, ...) at,
#define TG_LOSS2(loss, type, rho, at, ...) at,
#include "losses.def"
};

/// The program of all built-in losses.
const DerivedLoss& built_in() {
  static const auto& made = *new DerivedLoss(program_of(std::vector<LossStage>(1)));
  return made;
}

Rho unscaled_at(const LossStage& stage, double s) {
  if (stage.traced) return stage.traced->rho.at(s, stage.traced->numbers, {});
  if (stage.kind == Loss::Kind::trivial) return {s, 1, 0};
  const ClosedForm closed = kClosedForms[static_cast<std::size_t>(stage.kind) - 1];
  if (closed != derived) return closed(s, stage.a, stage.b);
  LossStage unscaled = stage;
  unscaled.scale = 1;
  std::vector<double> uniforms;
  append_uniforms(unscaled, uniforms);
  return built_in().at(s, {}, uniforms);
}

Rho stage_at(const LossStage& stage, double s) {
  Rho rho = unscaled_at(stage, s);
  for (double& value : rho) value *= stage.scale;
  return rho;
}

/// f(g(s)) by the chain rule.
Rho chained(const Rho& f, const Rho& g) {
  return {f[0], f[1] * g[1], f[2] * g[1] * g[1] + f[1] * g[2]};
}

/// "0.5", "-1e+300", "nan".
std::string number(double value) { return platform::formatted("%.6g", value); }

void check(bool ok, const std::string& loss, const char* field, const char* range, double value) {
  if (ok) return;
  throw Error(ErrorCode::InvalidArgument,
              loss + " loss: " + field + " must be " + range + ", got " + number(value));
}

std::string scaled_text(const std::string& text, double scale) {
  return scale == 1 ? text : "scaled(" + text + ", " + number(scale) + ")";
}

std::string describe(const LossStage& stage) {
  std::string text =
      stage.traced ? stage.name
                   : std::string(kNamedRows<Loss::Kind>[static_cast<std::size_t>(stage.kind)].name);
  if (!stage.traced && stage.kind != Loss::Kind::trivial) {
    text += "(" + number(stage.a);
    if (has_two_numbers(stage.kind)) text += ", " + number(stage.b);
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

#define TG_LOSS1(loss, ...)                                                               \
  Loss Loss::loss(double a) {                                                             \
    detail::check(std::isfinite(a) && a > 0, #loss, "scale a", "a finite number > 0", a); \
    return LossForm::of(Kind::loss, a);                                                   \
  }
#define TG_LOSS2(loss, ...)                                                           \
  Loss Loss::loss(double a, double b) {                                               \
    detail::check(std::isfinite(a) && a >= 0, #loss, "a", "a finite number >= 0", a); \
    detail::check(std::isfinite(b) && b > 0, #loss, "b", "a finite number > 0", b);   \
    return LossForm::of(Kind::loss, a, b);                                            \
  }
#include "losses.def"

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
  detail::TracedFunction function = detail::trace_function(
      "custom loss", 1, rows,
      {.one = "a residual", .all = "all residuals", .advice = "make a loss for each number"});
  auto traced = std::make_shared<const detail::TracedLoss>(detail::TracedLoss{
      detail::DerivedLoss(std::move(function.program)), std::move(function.numbers)});
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
    rho.fill(unwritten());
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
  return chain_ ? &chain_->program : &detail::built_in().value;
}

std::vector<double> Loss::uniforms() const {
  std::vector<double> out;
  if (is_host()) return out;
  for (const detail::LossStage& stage : LossForm::stages(*this))
    detail::append_uniforms(stage, out);
  return out;
}

const LossRow* find_loss(std::string_view name) {
  const auto found = std::ranges::find(kLosses, name, &LossRow::name);
  return found == std::end(kLosses) ? nullptr : found;
}

std::size_t number_count(const LossRow& loss) { return loss.one != nullptr ? 1 : 2; }

Loss make_loss(const LossRow& loss, std::span<const double> numbers) {
  return loss.one != nullptr ? loss.one(numbers[0]) : loss.two(numbers[0], numbers[1]);
}

}  // namespace topograd
