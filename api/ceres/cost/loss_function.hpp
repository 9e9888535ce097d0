// Robust loss functions, with Ceres' names.
#pragma once

#include "../../../frontend/loss.hpp"
#include "../types/types.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace ceres {

/// rho(s), where s is the squared norm of a residual block. Derive from it for a user-defined loss,
/// whose residual blocks then run on the CPU.
class LossFunction {
 public:
  virtual ~LossFunction();
  /// out = rho(s), rho'(s), rho''(s).
  virtual void Evaluate(double sq_norm, double out[3]) const = 0;
  /// The same loss in a form that any backend can run; empty if only Evaluate is available. Throws
  /// topograd::Error{InvalidArgument} for an invalid loss. An addition to Ceres' interface.
  virtual std::optional<topograd::Loss> Lowered() const { return std::nullopt; }
};

namespace internal {

/// A loss that is built into the library.
class KnownLoss : public LossFunction {
 public:
  void Evaluate(double sq_norm, double out[3]) const override;
  std::optional<topograd::Loss> Lowered() const override { return loss_; }

 protected:
  explicit KnownLoss(topograd::Loss loss) : loss_(std::move(loss)) {}

 private:
  topograd::Loss loss_;
};

/// A loss that its holder may own; nullptr is the plain square.
class OwnedLoss {
 public:
  OwnedLoss(const LossFunction* loss, Ownership ownership) : loss_(loss), ownership_(ownership) {}
  OwnedLoss(const OwnedLoss&) = delete;
  OwnedLoss& operator=(const OwnedLoss&) = delete;
  ~OwnedLoss() { Let(nullptr, TAKE_OWNERSHIP); }
  void Let(const LossFunction* loss, Ownership ownership);
  void Evaluate(double s, double out[3]) const;
  std::optional<topograd::Loss> Lowered() const;

 private:
  const LossFunction* loss_;
  Ownership ownership_;
};

}  // namespace internal

// frontend/losses.def has the classes and formulas; constructors throw
// topograd::Error{InvalidArgument} outside of the ranges.

class TrivialLoss final : public internal::KnownLoss {
 public:
  TrivialLoss() : KnownLoss(topograd::Loss::trivial()) {}
};
#define TG_LOSS1(loss, Type, ...)                                   \
  class Type final : public internal::KnownLoss {                   \
   public:                                                          \
    explicit Type(double a) : KnownLoss(topograd::Loss::loss(a)) {} \
  };
#define TG_LOSS2(loss, Type, ...)                                       \
  class Type final : public internal::KnownLoss {                       \
   public:                                                              \
    Type(double a, double b) : KnownLoss(topograd::Loss::loss(a, b)) {} \
  };
#include "../../../frontend/losses.def"

/// f(g(s)).
class ComposedLoss final : public LossFunction {
 public:
  ComposedLoss(const LossFunction* f, Ownership ownership_f, const LossFunction* g,
               Ownership ownership_g)
      : f_(f, ownership_f), g_(g, ownership_g) {}
  void Evaluate(double sq_norm, double out[3]) const override;
  std::optional<topograd::Loss> Lowered() const override;

 private:
  internal::OwnedLoss f_, g_;
};

/// a rho(s); a rho of nullptr is the plain square. Solve() rejects a negative a.
class ScaledLoss final : public LossFunction {
 public:
  ScaledLoss(const LossFunction* rho, double a, Ownership ownership)
      : rho_(rho, ownership), a_(a) {}
  void Evaluate(double sq_norm, double out[3]) const override;
  std::optional<topograd::Loss> Lowered() const override;

 private:
  internal::OwnedLoss rho_;
  double a_;
};

/// A loss that can be replaced between solves.
class LossFunctionWrapper final : public LossFunction {
 public:
  LossFunctionWrapper(LossFunction* rho, Ownership ownership) : rho_(rho, ownership) {}
  void Evaluate(double sq_norm, double out[3]) const override { rho_.Evaluate(sq_norm, out); }
  std::optional<topograd::Loss> Lowered() const override { return rho_.Lowered(); }
  void Reset(LossFunction* rho, Ownership ownership) { rho_.Let(rho, ownership); }

 private:
  internal::OwnedLoss rho_;
};

}  // namespace ceres
