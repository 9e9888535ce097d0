// An engine with what only the host can do beside it.
#include "host_engine.hpp"

#include "../../ir/error.hpp"
#include "../model/model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace topograd {
namespace {

/// rows += J p of host blocks.
void add_products(const HostTerms& host, std::span<const double> p, std::span<double> rows) {
  host.for_entries([&](std::uint64_t row, std::uint32_t scalar, double entry) {
    rows[row] += entry * p[scalar];
  });
}

/// out += Jᵀ rows of host blocks.
void add_transposed(const HostTerms& host, std::span<const double> rows, std::span<double> out) {
  const double* entry = host.jacobian().data();
  for (const HostTerms::Run& run : host.runs()) {
    const double* const of_run = rows.data() + run.row;
    for (std::size_t b = 0; b < run.offsets.size(); ++b) {
      const std::uint32_t width = run.widths[b];
      for (std::uint32_t c = 0; c < width; ++c) {
        double sum = out[run.offsets[b] + c];
        for (std::uint32_t r = 0; r < run.rows; ++r)
          sum += entry[std::size_t{r} * width + c] * of_run[r];
        out[run.offsets[b] + c] = sum;
      }
      entry += std::size_t{run.rows} * width;
    }
  }
}

}  // namespace

HostEngine::HostEngine(runtime::Engine& inner, const Problem& problem, const runtime::Model& model,
                       bool with_losses)
    : OuterEngine(inner),
      problem_(problem),
      model_(&model),
      with_losses_(with_losses),
      space_(std::make_unique<TangentSpace>(problem)),
      host_(std::make_unique<HostTerms>(problem, with_losses)),
      x_(model.scalars),
      trial_(model.scalars),
      rows_(model.rows) {}

runtime::Abilities HostEngine::abilities() {
  const runtime::Abilities able = inner().abilities();
  return {.steps = this,
          .second_derivatives = able.second_derivatives ? this : nullptr,
          .several_values = this,
          .known_point = this,
          .plans = able.plans,
          .measurements = able.measurements};
}

void HostEngine::refresh(const runtime::Model& model) {
  model_ = &model;
  inner().refresh(model);
  space_ = std::make_unique<TangentSpace>(problem_);
  host_ = std::make_unique<HostTerms>(problem_, with_losses_);
  rows_.resize(model.rows);
  host_cost_.reset();
  trial_host_cost_.reset();
  host_is_current_ = basis_is_current_ = gradient_is_current_ = false;
}

void HostEngine::set_point(std::span<const double> x) {
  x_.assign(x.begin(), x.end());
  inner().set_point(x);
  host_cost_.reset();
  inner_at_trial_ = host_is_current_ = basis_is_current_ = gradient_is_current_ = false;
}

void HostEngine::point(std::span<double> x) { std::ranges::copy(x_, x.begin()); }

bool HostEngine::last_known_point(std::span<double> x) {
  point(x);
  return true;
}

void HostEngine::move_inner(const std::vector<double>& x, bool trial) {
  if (!trial && !inner_at_trial_) return;
  inner().set_point(x);
  inner_at_trial_ = trial;
}

void HostEngine::evaluate_host() {
  if (host_is_current_) return;
  host_has_value_ = host_->linearize(x_, rows_);
  host_is_current_ = true;
}

double HostEngine::cost() {
  move_inner(x_, false);
  const double traced = inner().cost();
  if (host_->empty()) return traced;
  if (!host_cost_) host_cost_ = host_->cost(x_);
  return traced + *host_cost_;
}

void HostEngine::residuals(std::span<double> out) {
  move_inner(x_, false);
  inner().residuals(out);
  evaluate_host();
  for (const HostBlock& block : host_->blocks())
    for (std::uint64_t r = block.row; r < block.row + block.rows; ++r)
      out[r] = host_has_value_ ? rows_[r] : kNaN;
}

void HostEngine::gradient(std::span<double> out) {
  move_inner(x_, false);
  inner().gradient(out);
  evaluate_host();
  add_transposed(*host_, rows_, out);
  if (!host_has_value_) std::ranges::fill(out, kNaN);
}

void HostEngine::jacobian(std::size_t term, std::span<double> values) {
  move_inner(x_, false);
  inner().jacobian(term, values);
}

void HostEngine::jvp(std::span<const double> p, std::span<double> out) {
  move_inner(x_, false);
  inner().jvp(p, out);
  evaluate_host();
  for (const HostBlock& block : host_->blocks())
    std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(block.row), block.rows, 0.0);
  add_products(*host_, p, out);
}

void HostEngine::vjp(std::span<const double> seeds, std::span<double> out) {
  move_inner(x_, false);
  inner().vjp(seeds, out);
  evaluate_host();
  add_transposed(*host_, seeds, out);
}

void HostEngine::jtjp(std::span<const double> p, std::span<double> out) {
  move_inner(x_, false);
  inner().jtjp(p, out);
  evaluate_host();
  std::vector<double> rows(rows_.size(), 0.0);
  add_products(*host_, p, rows);
  add_transposed(*host_, rows, out);
}

void HostEngine::refuse_second_order(const char* call) const {
  if (host_->empty()) return;
  throw Error(ErrorCode::Unsupported,
              std::string(call) + ": " + host_name(problem_, 0) + " has no second derivatives");
}

void HostEngine::hvp(std::span<const double> p, std::span<double> out) {
  refuse_second_order("hvp");
  move_inner(x_, false);
  runtime::second_derivatives(inner()).hvp(p, out);
}

void HostEngine::hessian(std::size_t term, bool project, std::span<double> values) {
  refuse_second_order("hessian");
  move_inner(x_, false);
  runtime::second_derivatives(inner()).hessian(term, project, values);
}

std::span<const double> HostEngine::basis() {
  if (!basis_is_current_) basis_is_there_ = space_->basis(x_, basis_);
  basis_is_current_ = true;
  return basis_;
}

std::span<const double> HostEngine::tangent_gradient() {
  if (gradient_is_current_) return gradient_;
  std::vector<double> ambient(x_.size());
  gradient(ambient);
  gradient_.assign(space_->size(), 0.0);
  space_->project(basis(), ambient, gradient_);
  if (!basis_is_there_) std::ranges::fill(gradient_, kNaN);
  gradient_is_current_ = true;
  return gradient_;
}

runtime::PointReport HostEngine::linearize() {
  runtime::PointReport report{.cost = cost()};
  const std::span<const double> g = tangent_gradient();
  std::vector<double> minus(g.size()), moved(x_.size());
  std::ranges::transform(g, minus.begin(), [](double v) { return -v; });
  const bool there = space_->plus(x_, minus, moved) &&
                     std::ranges::all_of(g, [](double v) { return std::isfinite(v); });
  double square = 0;
  for (std::uint32_t k = 0; k < x_.size(); ++k) {
    const std::uint32_t column = space_->column(k);
    const bool whole = column != TangentSpace::kNone && space_->block_of(k) == nullptr &&
                       moved[k] == x_[k] + minus[column];
    // The difference would lose the digits of a gradient that is small beside x.
    const double v = space_->is_active(k, x_, g) ? 0 : whole ? g[column] : x_[k] - moved[k];
    report.gradient_max_norm = std::max(report.gradient_max_norm, std::fabs(v));
    square += v * v;
  }
  report.gradient_norm = there ? std::sqrt(square) : kNaN;
  if (!there) report.gradient_max_norm = kNaN;
  double x_square = 0;
  for (std::uint32_t k = 0; k < x_.size(); ++k)
    if (space_->column(k) != TangentSpace::kNone) x_square += x_[k] * x_[k];
  report.x_norm = std::sqrt(x_square);
  return report;
}

runtime::StepReport HostEngine::try_step(const runtime::StepRequest&) {
  throw Error(ErrorCode::Internal, "host engine: steps are solved for on the host");
}

runtime::StepReport HostEngine::try_step(std::span<const double> delta) {
  std::vector<double> tangent(space_->size(), 0.0);
  space_->project(basis(), delta, tangent);
  return try_tangent(tangent);
}

runtime::StepReport HostEngine::try_tangent(std::span<const double> delta, double scale) {
  runtime::StepReport report{.trial_cost = kNaN};
  trial_host_cost_.reset();
  if (scale != 1) {
    scaled_.assign(delta.begin(), delta.end());
    for (double& v : scaled_) v *= scale;
    delta = scaled_;
  }
  if (!space_->plus(x_, delta, trial_)) return report;
  double square = 0;
  for (std::size_t k = 0; k < x_.size(); ++k) square += (trial_[k] - x_[k]) * (trial_[k] - x_[k]);
  report.step_norm = std::sqrt(square);
  report.trial_cost = trial_cost();
  return report;
}

double HostEngine::trial_cost() {
  move_inner(trial_, true);
  const double traced = inner().cost();
  trial_host_cost_.reset();
  if (host_->empty()) return traced;
  trial_host_cost_ = host_->cost(trial_);
  return traced + *trial_host_cost_;
}

void HostEngine::accept() {
  std::swap(x_, trial_);
  host_cost_ = std::exchange(trial_host_cost_, std::nullopt);
  inner_at_trial_ = !inner_at_trial_;
  host_is_current_ = basis_is_current_ = gradient_is_current_ = false;
}

}  // namespace topograd
