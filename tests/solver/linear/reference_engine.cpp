// An engine made of the scalar evaluator and dense loops.
#include "reference_engine.hpp"

#include "../../../autodiff/derivatives.hpp"
#include "../../../ir/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace topograd::test {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Gaussian elimination without pivoting, for positive definite blocks.
Vector solve_dense(std::vector<Vector> a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t i = k + 1; i < n; ++i) {
      const double f = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= f * a[k][j];
      b[i] -= f * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

Vector precondition(const std::vector<std::vector<Vector>>& blocks, const Vector& r) {
  Vector z;
  for (const std::vector<Vector>& block : blocks) {
    const auto begin = r.begin() + static_cast<std::ptrdiff_t>(z.size());
    const Vector part =
        solve_dense(block, Vector(begin, begin + static_cast<std::ptrdiff_t>(block.size())));
    z.insert(z.end(), part.begin(), part.end());
  }
  return z;
}

}  // namespace

ReferenceEngine::ReferenceEngine(const runtime::Model& model)
    : model_(&model), x_(model.scalars), trial_(model.scalars) {}

void ReferenceEngine::set_point(std::span<const double> x) { x_.assign(x.begin(), x.end()); }
void ReferenceEngine::point(std::span<double> x) { std::copy(x_.begin(), x_.end(), x.begin()); }

void ReferenceEngine::evaluate_term(std::size_t t, const Vector& x, bool derivatives, Vector& r,
                                    Vector& j) const {
  const runtime::Term& term = model_->terms[t];
  const ir::Batch& batch = *term.batch;
  const ir::Program& program = term.topology->program;
  const ir::Program jacobian =
      derivatives ? autodiff::jacobian(program, autodiff::all_slots(program)) : ir::Program{};
  Vector p(batch.parameter_columns()), d(batch.data_columns()), u(program.leaves.uniforms);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    for (std::uint32_t c = 0; c < p.size(); ++c) p[c] = x[batch.index(i, c)];
    for (std::uint32_t c = 0; c < d.size(); ++c) d[c] = batch.data(i, c);
    for (std::uint32_t c = 0; c < u.size(); ++c) {
      u[c] = model_->uniforms[batch.index(i, batch.parameter_columns() + c)];
    }
    const ir::Inputs<double> inputs{p, d, u, {}, {}};
    const Vector rows = ir::evaluate(program, inputs);
    r.insert(r.end(), rows.begin(), rows.end());
    if (!derivatives) continue;
    const Vector values = ir::evaluate(jacobian, inputs);
    j.insert(j.end(), values.begin(), values.end());
  }
}

double ReferenceEngine::cost_at(const Vector& x) const {
  double sum = 0;
  for (std::size_t t = 0; t < model_->terms.size(); ++t) {
    Vector r, unused;
    evaluate_term(t, x, false, r, unused);
    sum += dot(r, r);
  }
  return sum / 2;
}

void ReferenceEngine::residuals(std::span<double> out) {
  for (std::size_t t = 0; t < model_->terms.size(); ++t) {
    Vector r, unused;
    evaluate_term(t, x_, false, r, unused);
    const std::size_t m = model_->terms[t].topology->program.outputs.size();
    for (std::size_t k = 0; k < r.size(); ++k) {
      out[model_->terms[t].batch->residual_row(k / m) + k % m] = r[k];
    }
  }
}

void ReferenceEngine::jacobian(std::size_t term, std::span<double> values) {
  Vector r, j;
  evaluate_term(term, x_, true, r, j);
  std::copy(j.begin(), j.end(), values.begin());
}

void ReferenceEngine::build_jacobian() {
  std::vector<std::vector<Entry>> rows(model_->rows);
  for (std::size_t t = 0; t < model_->terms.size(); ++t) {
    const runtime::Term& term = model_->terms[t];
    const std::size_t n = term.batch->parameter_columns();
    const std::size_t m = term.topology->program.outputs.size();
    Vector r, j;
    evaluate_term(t, x_, true, r, j);
    for (std::size_t k = 0; k < j.size(); ++k) {
      const std::size_t instance = k / (m * n), row = k / n % m;
      const std::uint32_t column = term.batch->index(instance, static_cast<std::uint32_t>(k % n));
      if (!constant(column))
        rows[term.batch->residual_row(instance) + row].push_back({column, j[k]});
    }
  }
  entries_.clear();
  row_starts_.assign(1, 0);
  for (const std::vector<Entry>& row : rows) {
    entries_.insert(entries_.end(), row.begin(), row.end());
    row_starts_.push_back(entries_.size());
  }
}

Vector ReferenceEngine::apply(const Vector& p) const {
  Vector out(model_->rows, 0.0);
  for (std::size_t row = 0; row < out.size(); ++row) {
    for (std::size_t k = row_starts_[row]; k < row_starts_[row + 1]; ++k) {
      out[row] += entries_[k].value * p[entries_[k].column];
    }
  }
  return out;
}

Vector ReferenceEngine::apply_transposed(const Vector& s) const {
  Vector out(model_->scalars, 0.0);
  for (std::size_t row = 0; row < s.size(); ++row) {
    for (std::size_t k = row_starts_[row]; k < row_starts_[row + 1]; ++k) {
      out[entries_[k].column] += entries_[k].value * s[row];
    }
  }
  return out;
}

void ReferenceEngine::gradient(std::span<double> out) {
  build_jacobian();
  Vector r(model_->rows);
  residuals(r);
  const Vector g = apply_transposed(r);
  std::copy(g.begin(), g.end(), out.begin());
}
void ReferenceEngine::jvp(std::span<const double> p, std::span<double> out) {
  build_jacobian();
  const Vector v = apply(Vector(p.begin(), p.end()));
  std::copy(v.begin(), v.end(), out.begin());
}
void ReferenceEngine::vjp(std::span<const double> seeds, std::span<double> out) {
  build_jacobian();
  const Vector v = apply_transposed(Vector(seeds.begin(), seeds.end()));
  std::copy(v.begin(), v.end(), out.begin());
}
void ReferenceEngine::jtjp(std::span<const double> p, std::span<double> out) {
  build_jacobian();
  const Vector v = apply_transposed(apply(Vector(p.begin(), p.end())));
  std::copy(v.begin(), v.end(), out.begin());
}

runtime::PointReport ReferenceEngine::linearize() {
  residual_.resize(model_->rows);
  residuals(residual_);
  build_jacobian();
  gradient_ = apply_transposed(residual_);
  diagonal_.assign(model_->scalars, 0.0);
  for (const Entry& e : entries_) diagonal_[e.column] += e.value * e.value;
  if (scale_.empty()) {
    for (const double d : diagonal_) scale_.push_back(1 / (1 + std::sqrt(d)));
  }
  runtime::PointReport report{.cost = dot(residual_, residual_) / 2,
                              .gradient_norm = std::sqrt(dot(gradient_, gradient_))};
  double squares = 0;
  for (std::uint32_t k = 0; k < x_.size(); ++k) {
    report.gradient_max_norm = std::isnan(gradient_[k])
                                   ? gradient_[k]
                                   : std::max(report.gradient_max_norm, std::abs(gradient_[k]));
    if (!constant(k)) squares += x_[k] * x_[k];
  }
  report.x_norm = std::sqrt(squares);
  return report;
}

Vector ReferenceEngine::damping(const runtime::StepRequest& request) const {
  Vector out(model_->scalars);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const double s = request.jacobi_scaling ? scale_[k] * scale_[k] : 1;
    out[k] = request.lambda *
             std::clamp(s * diagonal_[k], request.min_diagonal, request.max_diagonal) / s;
  }
  return out;
}

std::vector<ReferenceEngine::Block> ReferenceEngine::diagonal_blocks(const Vector& extra) const {
  std::vector<Block> blocks;
  std::vector<std::pair<std::size_t, std::size_t>> place(model_->scalars);
  for (const runtime::ParameterArray& a : model_->arrays) {
    for (std::size_t b = 0; b < a.blocks; ++b) {
      for (std::size_t c = 0; c < a.width; ++c) {
        place[a.offset + b * a.width + c] = {blocks.size(), c};
      }
      blocks.emplace_back(a.width, Vector(a.width, 0.0));
    }
  }
  for (std::size_t row = 0; row + 1 < row_starts_.size(); ++row) {
    for (std::size_t i = row_starts_[row]; i < row_starts_[row + 1]; ++i) {
      for (std::size_t j = row_starts_[row]; j < row_starts_[row + 1]; ++j) {
        const auto [bi, ci] = place[entries_[i].column];
        const auto [bj, cj] = place[entries_[j].column];
        if (bi == bj) blocks[bi][ci][cj] += entries_[i].value * entries_[j].value;
      }
    }
  }
  for (std::size_t k = 0; k < place.size(); ++k) {
    double& d = blocks[place[k].first][place[k].second][place[k].second];
    d += extra[k];
    if (d == 0) d = 1;
  }
  return blocks;
}

int ReferenceEngine::conjugate_gradients(const runtime::StepRequest& request, Vector& delta) const {
  const Vector extra = damping(request);
  const std::vector<Block> blocks = diagonal_blocks(extra);
  delta.assign(model_->scalars, 0.0);
  Vector r(gradient_.size());
  for (std::size_t k = 0; k < r.size(); ++k) r[k] = -gradient_[k];
  Vector z = precondition(blocks, r), p = z;
  double rz = dot(r, z);
  const double stop = request.linear_tolerance * std::sqrt(dot(r, r));
  int iterations = 0;
  while (iterations < request.max_linear_iterations && std::sqrt(dot(r, r)) > stop) {
    Vector q = apply_transposed(apply(p));
    for (std::size_t k = 0; k < q.size(); ++k) q[k] += extra[k] * p[k];
    const double alpha = rz / dot(p, q);
    for (std::size_t k = 0; k < r.size(); ++k) {
      delta[k] += alpha * p[k];
      r[k] -= alpha * q[k];
    }
    z = precondition(blocks, r);
    const double next = dot(r, z);
    for (std::size_t k = 0; k < p.size(); ++k) p[k] = z[k] + next / rz * p[k];
    rz = next;
    ++iterations;
  }
  return iterations;
}

void ReferenceEngine::trial_point(std::span<double> x) {
  std::copy(trial_.begin(), trial_.end(), x.begin());
}

runtime::StepReport ReferenceEngine::try_step(const runtime::StepRequest& request) {
  Vector delta;
  const int iterations = conjugate_gradients(request, delta);
  runtime::StepReport report = try_step(std::span<const double>(delta));
  const Vector moved = apply(delta);
  report.model_decrease = -dot(residual_, moved) - dot(moved, moved) / 2;
  report.linear_iterations = iterations;
  return report;
}

runtime::StepReport ReferenceEngine::try_step(std::span<const double> delta) {
  double squares = 0;
  for (std::size_t k = 0; k < x_.size(); ++k) {
    trial_[k] = x_[k] + delta[k];
    squares += delta[k] * delta[k];
  }
  return {.step_norm = std::sqrt(squares), .trial_cost = cost_at(trial_)};
}

}  // namespace topograd::test
