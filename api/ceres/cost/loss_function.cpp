// Robust loss functions: composition, scaling, ownership.
#include "loss_function.hpp"

namespace ceres {
namespace internal {

void KnownLoss::Evaluate(double sq_norm, double out[3]) const {
  const auto rho = loss_.evaluate(sq_norm);
  for (std::size_t k = 0; k < rho.size(); ++k) out[k] = rho[k];
}

void OwnedLoss::Let(const LossFunction* loss, Ownership ownership) {
  if (ownership_ == TAKE_OWNERSHIP && loss_ != loss) delete loss_;
  loss_ = loss;
  ownership_ = ownership;
}

void OwnedLoss::Evaluate(double s, double out[3]) const {
  if (loss_ != nullptr) return loss_->Evaluate(s, out);
  out[0] = s;
  out[1] = 1;
  out[2] = 0;
}

std::optional<topograd::Loss> OwnedLoss::Lowered() const {
  return loss_ == nullptr ? topograd::Loss::trivial() : loss_->Lowered();
}

}  // namespace internal

LossFunction::~LossFunction() = default;

void ComposedLoss::Evaluate(double sq_norm, double out[3]) const {
  double inner[3], outer[3];
  g_.Evaluate(sq_norm, inner);
  f_.Evaluate(inner[0], outer);
  out[0] = outer[0];
  out[1] = outer[1] * inner[1];
  out[2] = outer[2] * inner[1] * inner[1] + outer[1] * inner[2];
}

std::optional<topograd::Loss> ComposedLoss::Lowered() const {
  const auto f = f_.Lowered(), g = g_.Lowered();
  if (!f || !g) return std::nullopt;
  return topograd::Loss::composed(*f, *g);
}

void ScaledLoss::Evaluate(double sq_norm, double out[3]) const {
  rho_.Evaluate(sq_norm, out);
  for (int k = 0; k < 3; ++k) out[k] *= a_;
}

std::optional<topograd::Loss> ScaledLoss::Lowered() const {
  static const auto& users =
      *new topograd::Loss(topograd::Loss::host([](double, double*) {}, "LossFunction"));
  const auto rho = rho_.Lowered();
  // A cost with a negative scale has no minimum; Evaluate accepts it as Ceres does.
  if (!(a_ >= 0)) return topograd::Loss::scaled(rho ? *rho : users, a_);  // throws
  if (!rho) return std::nullopt;
  return topograd::Loss::scaled(*rho, a_);
}

}  // namespace ceres
