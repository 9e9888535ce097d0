// Ridge regression of log(µs) by normal equations.
#include "first_guess.hpp"

#include "../../../ir/machine/stopwatch.hpp"
#include "../../cache/content_hash.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

namespace topograd::runtime::hybrid {
namespace {

constexpr std::uint64_t kRowsNeeded = 12;
constexpr std::size_t kKernelsNeeded = 3;
// Number of new rows before the next fit: small while there are few rows.
constexpr std::uint64_t kMostStale = 8, kRowsOfOneStale = 32;
// Weight, in rows, of the prior "time is the work times a constant", in each weight and in each
// family's constant.
constexpr double kRidge = 20;
constexpr double kFamilyRidge = 1;
// There is almost no prior for the constant itself.
constexpr double kRidgeOfConstant = 1e-3;
// Operations that take about as long as a call.
constexpr double kOverhead = 1e3;
constexpr double kBytesPerOperation = 8;
// A guess about an unknown kernel is never as sure as a known one.
constexpr double kMostConfidence = 0.5;

/// Solves the symmetric positive definite system in place by Cholesky's method.
template <std::size_t N>
std::array<double, N> solve(std::array<std::array<double, N>, N> a, std::array<double, N> b) {
  for (std::size_t j = 0; j < N; ++j) {
    for (std::size_t k = 0; k < j; ++k) a[j][j] -= a[j][k] * a[j][k];
    a[j][j] = std::sqrt(a[j][j]);
    for (std::size_t i = j + 1; i < N; ++i) {
      for (std::size_t k = 0; k < j; ++k) a[i][j] -= a[i][k] * a[j][k];
      a[i][j] /= a[j][j];
    }
  }
  for (std::size_t i = 0; i < N; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = N; i-- > 0;) {
    for (std::size_t k = i + 1; k < N; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

/// Logarithm of the work, to which time is assumed proportional.
double log_work(std::uint64_t size, const Features& f) {
  const double work = std::max(f.operations, 0.0) + std::max(f.bytes, 0.0) / kBytesPerOperation;
  return std::log1p(static_cast<double>(size) * work / kOverhead);
}

double log_time(const TrainingRow& row) { return std::log(std::max(row.us, 1e-3)); }

}  // namespace

FirstGuess::Inputs FirstGuess::inputs(std::uint64_t size, const Features& f) {
  const double items = std::log1p(static_cast<double>(size));
  const auto beyond = [&](double bend) { return std::max(0.0, items - std::log(bend)); };
  return {1,
          items,
          beyond(1e3),
          beyond(3e4),
          std::log(std::max(f.operations, 1e-3)),
          std::log(std::max(f.bytes, 1e-3)),
          std::log(std::max(f.parallelism, 1e-6)),
          std::log(std::max(f.reuse, 1.0)),
          f.pattern == MemoryPattern::gather ? 1.0 : 0.0,
          f.pattern == MemoryPattern::scatter || f.pattern == MemoryPattern::reduction ? 1.0 : 0.0};
}

Hash128 FirstGuess::family_of(std::string_view operation, const Features& features) {
  Hash128 hash = hash_text(operation);
  hash.add(features.family);
  return hash;
}

void FirstGuess::count(const TrainingRow& row, double sign) {
  const Inputs phi = inputs(row.size, row.features);
  const double y = log_time(row) - log_work(row.size, row.features);
  Family& family = families_[family_of(row.operation, row.features)];
  for (std::size_t i = 0; i < kInputs; ++i) {
    for (std::size_t j = 0; j < kInputs; ++j) normal_[i][j] += sign * phi[i] * phi[j];
    moment_[i] += sign * phi[i] * y;
    family.inputs[i] += sign * phi[i];
  }
  family.left += sign * y;
  family.rows += sign;
  squares_ += sign * y * y;
  const int change = sign > 0 ? 1 : -1;
  rows_ += static_cast<std::uint64_t>(change);
  const auto kernel = kernels_.try_emplace(row.kernel).first;
  kernel->second += change;
  if (kernel->second == 0) kernels_.erase(kernel);
  ++since_fit_;
  if (rows_ < kRowsNeeded || kernels_.size() < kKernelsNeeded) return;
  if (!fitted_ || since_fit_ >= std::clamp<std::uint64_t>(rows_ / kRowsOfOneStale, 1, kMostStale))
    fit();
}

/// The families' constants c, each with its own ridge, follow from the weights w: c = Σ (y − w φ) /
/// (rows + ridge). Inserted into the normal equations they leave a system for w alone.
void FirstGuess::fit() {
  auto normal = normal_;
  Inputs moment = moment_;
  for (const auto& [hash, family] : families_) {
    const double share = 1 / (family.rows + kFamilyRidge);
    for (std::size_t i = 0; i < kInputs; ++i) {
      for (std::size_t j = 0; j < kInputs; ++j)
        normal[i][j] -= share * family.inputs[i] * family.inputs[j];
      moment[i] -= share * family.inputs[i] * family.left;
    }
  }
  for (std::size_t i = 0; i < kInputs; ++i) normal[i][i] += i == 0 ? kRidgeOfConstant : kRidge;
  weights_ = solve(normal, moment);
  const auto by_weights = [&](const Inputs& x) {
    return std::inner_product(x.begin(), x.end(), weights_.begin(), 0.0);
  };
  double error = squares_ - 2 * by_weights(moment_);
  for (std::size_t i = 0; i < kInputs; ++i) error += weights_[i] * by_weights(normal_[i]);
  for (auto& [hash, family] : families_) {
    const double left = family.left - by_weights(family.inputs);
    family.offset = left / (family.rows + kFamilyRidge);
    error += family.offset * (family.rows * family.offset - 2 * left);
  }
  sigma_ = std::sqrt(std::max(error, 0.0) / static_cast<double>(rows_));
  since_fit_ = 0;
  fitted_ = true;
}

Estimate FirstGuess::at(std::string_view operation, std::uint64_t size,
                        const Features& features) const {
  if (!fitted_) return {};
  const Inputs phi = inputs(size, features);
  double y = std::inner_product(phi.begin(), phi.end(), weights_.begin(), log_work(size, features));
  if (const auto found = families_.find(family_of(operation, features)); found != families_.end())
    y += found->second.offset;
  const double off = sigma_ / std::log(2.0);
  return {.us = std::exp(y),
          .confidence = kMostConfidence / (1 + off * off),
          .samples = rows_,
          .known = true};
}

double FirstGuess::error_factor() const { return fitted_ ? std::exp(sigma_) : 0; }

void TrainingSet::keep(TrainingRow row) {
  const auto same =
      std::ranges::find_if(rows_, [&](const TrainingRow& one) { return row.replaces(one); });
  guess_.add(row);
  if (same == rows_.end() && rows_.size() < kMaxTrainingRows) {
    rows_.push_back(std::move(row));
    return;
  }
  TrainingRow& old = same != rows_.end() ? *same : rows_[next_++ % kMaxTrainingRows];
  guess_.remove(old);
  old = std::move(row);
}

double held_out_error(const std::vector<TrainingRow>& rows) {
  std::set<Hash128> kernels;
  for (const TrainingRow& row : rows) kernels.insert(row.kernel);
  if (kernels.size() <= kKernelsNeeded) return 0;
  std::vector<double> off;
  for (const Hash128& left_out : kernels) {
    FirstGuess guess;
    for (const TrainingRow& row : rows)
      if (row.kernel != left_out) guess.add(row);
    for (const TrainingRow& row : rows) {
      if (row.kernel != left_out) continue;
      const Estimate estimate = guess.at(row.operation, row.size, row.features);
      if (estimate) off.push_back(std::abs(std::log(estimate.us) - log_time(row)));
    }
  }
  return off.empty() ? 0 : std::exp(topograd::median(std::move(off)));
}

}  // namespace topograd::runtime::hybrid
