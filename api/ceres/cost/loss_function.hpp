// Robust loss functions, with Ceres' names.
#pragma once

#include "../../../frontend/loss.hpp"
#include "../types/types.hpp"

#include <memory>
#include <optional>

namespace ceres {

/// rho(s) for s = the squared norm of a residual block. Derive from it for a loss of your own: its
/// residual blocks run on the CPU then.
class LossFunction {
 public:
  virtual ~LossFunction();
  /// out = rho(s), rho'(s), rho''(s).
  virtual void Evaluate(double sq_norm, double out[3]) const = 0;
  /// The same loss as any backend runs it; nothing where only Evaluate is known. Throws
  /// topograd::Error{InvalidArgument} for what is no loss. An addition to Ceres' interface.
  virtual std::optional<topograd::Loss> Lowered() const { return std::nullopt; }
};

namespace internal {

/// A loss that the library knows.
class KnownLoss : public LossFunction {
 public:
  void Evaluate(double sq_norm, double out[3]) const override;
  std::optional<topograd::Loss> Lowered() const override { return loss_; }

 protected:
  explicit KnownLoss(topograd::Loss loss) : loss_(std::move(loss)) {}

 private:
  topograd::Loss loss_;
};

/// A loss of someone else's, which is deleted with its holder or not; nullptr is the plain square.
class HeldLoss {
 public:
  HeldLoss(const LossFunction* loss, Ownership ownership) : loss_(loss), ownership_(ownership) {}
  HeldLoss(const HeldLoss&) = delete;
  HeldLoss& operator=(const HeldLoss&) = delete;
  ~HeldLoss() { Let(nullptr, TAKE_OWNERSHIP); }
  void Let(const LossFunction* loss, Ownership ownership);
  void Evaluate(double s, double out[3]) const;
  std::optional<topograd::Loss> Lowered() const;

 private:
  const LossFunction* loss_;
  Ownership ownership_;
};

}  // namespace internal

// Formulas and the ranges of their numbers stand in frontend/loss.hpp; constructors throw
// topograd::Error{InvalidArgument} outside of them.

class TrivialLoss final : public internal::KnownLoss {
 public:
  TrivialLoss() : KnownLoss(topograd::Loss::trivial()) {}
};
class HuberLoss final : public internal::KnownLoss {
 public:
  explicit HuberLoss(double a) : KnownLoss(topograd::Loss::huber(a)) {}
};
class SoftLOneLoss final : public internal::KnownLoss {
 public:
  explicit SoftLOneLoss(double a) : KnownLoss(topograd::Loss::soft_l1(a)) {}
};
class CauchyLoss final : public internal::KnownLoss {
 public:
  explicit CauchyLoss(double a) : KnownLoss(topograd::Loss::cauchy(a)) {}
};
class ArctanLoss final : public internal::KnownLoss {
 public:
  explicit ArctanLoss(double a) : KnownLoss(topograd::Loss::arctan(a)) {}
};
class TolerantLoss final : public internal::KnownLoss {
 public:
  TolerantLoss(double a, double b) : KnownLoss(topograd::Loss::tolerant(a, b)) {}
};
class TukeyLoss final : public internal::KnownLoss {
 public:
  explicit TukeyLoss(double a) : KnownLoss(topograd::Loss::tukey(a)) {}
};

/// f(g(s)).
class ComposedLoss final : public LossFunction {
 public:
  ComposedLoss(const LossFunction* f, Ownership ownership_f, const LossFunction* g,
               Ownership ownership_g)
      : f_(f, ownership_f), g_(g, ownership_g) {}
  void Evaluate(double sq_norm, double out[3]) const override;
  std::optional<topograd::Loss> Lowered() const override;

 private:
  internal::HeldLoss f_, g_;
};

/// a rho(s); a rho that is nullptr is the plain square. Solve() refuses an a that is negative.
class ScaledLoss final : public LossFunction {
 public:
  ScaledLoss(const LossFunction* rho, double a, Ownership ownership)
      : rho_(rho, ownership), a_(a) {}
  void Evaluate(double sq_norm, double out[3]) const override;
  std::optional<topograd::Loss> Lowered() const override;

 private:
  internal::HeldLoss rho_;
  double a_;
};

/// A loss that can be exchanged between solves.
class LossFunctionWrapper final : public LossFunction {
 public:
  LossFunctionWrapper(LossFunction* rho, Ownership ownership) : rho_(rho, ownership) {}
  void Evaluate(double sq_norm, double out[3]) const override { rho_.Evaluate(sq_norm, out); }
  std::optional<topograd::Loss> Lowered() const override { return rho_.Lowered(); }
  void Reset(LossFunction* rho, Ownership ownership) { rho_.Let(rho, ownership); }

 private:
  internal::HeldLoss rho_;
};

}  // namespace ceres
