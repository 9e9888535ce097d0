// Robust losses: functions that replace the squares of residual blocks in the cost.
#pragma once

#include "../ir/program.hpp"
#include "value/math.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace topograd {

namespace detail {
struct LossChain;
struct LossForm;
}  // namespace detail

/// A robust loss ρ: a block with residual rows r contributes ½ ρ(s), s = Σ r², to the cost.
///
/// Names, formulas and the correction of residual and Jacobian are Ceres Solver's. A small value
/// type.
///
/// All built-in losses share one program; their kind and scales are uniforms of it, and so are the
/// numbers inside a custom loss. Changing them (Problem::set_loss) therefore never compiles.
class Loss {
 public:
  enum class Kind : std::uint8_t { trivial, huber, soft_l1, cauchy, arctan, tukey, tolerant };

  /// ρ(s) = s.
  Loss() = default;
  static Loss trivial() { return {}; }

  // `a` is the residual at which outliers begin, in residual units. Throw Error{InvalidArgument}
  // unless a is finite and > 0.
  /// s for s <= a², else 2 a √s − a².
  static Loss huber(double a);
  /// 2 a² (√(1 + s / a²) − 1).
  static Loss soft_l1(double a);
  /// a² log(1 + s / a²).
  static Loss cauchy(double a);
  /// a atan(s / a).
  static Loss arctan(double a);
  /// a² / 3 (1 − (1 − s / a²)³) for s <= a², else a² / 3.
  static Loss tukey(double a);
  /// b log(1 + e^((s − a) / b)) − b log(1 + e^(−a / b)): about 0 for residuals up to √a,
  /// then like s. a >= 0, b > 0.
  static Loss tolerant(double a, double b);
  /// scale · ρ(s), scale >= 0 and finite.
  static Loss scaled(const Loss& loss, double scale);
  /// f(g(s)).
  static Loss composed(const Loss& f, const Loss& g);
  /// A user-defined loss: `rho` takes s as a Value and returns ρ(s), written like a residual; ρ
  /// must not decrease. ρ′ and ρ″ are derived. Throws Error{NoParameters} if ρ does not depend on
  /// s, Error{Unsupported} for an `if` on a Value.
  static Loss custom(const std::function<Value(const Value& s)>& rho, std::string name = "custom");
  /// A user-defined loss as opaque code, for blocks that run on the host (HostResidual) only:
  /// writes ρ(s), ρ′(s), ρ″(s).
  static Loss host(std::function<void(double s, double rho[3])> rho, std::string name = "host");

  bool is_trivial() const { return kind_ == Kind::trivial && scale_ == 1 && !chain_; }
  bool is_host() const;
  /// ρ(s), ρ′(s), ρ″(s) in double, for s >= 0.
  std::array<double, 3> evaluate(double s) const;
  /// "scaled(huber(0.5), 2)", "composed(cauchy(1), custom)".
  std::string describe() const;
  friend bool operator==(const Loss& x, const Loss& y);

  // Read by Problem.
  /// ρ as a program: parameter 0 is s. Independent of the loss's numbers. Null for host losses.
  const ir::Program* program() const;
  /// Values of the program's uniforms.
  std::vector<double> uniforms() const;

 private:
  friend struct detail::LossForm;

  Kind kind_ = Kind::trivial;
  double a_ = 1, b_ = 1;  // only tolerant uses b
  double scale_ = 1;
  std::shared_ptr<const detail::LossChain> chain_;  // composed, custom and host losses
};

inline Loss huber(double a) { return Loss::huber(a); }
inline Loss soft_l1(double a) { return Loss::soft_l1(a); }
inline Loss cauchy(double a) { return Loss::cauchy(a); }
inline Loss arctan(double a) { return Loss::arctan(a); }
inline Loss tukey(double a) { return Loss::tukey(a); }
inline Loss tolerant(double a, double b) { return Loss::tolerant(a, b); }
inline Loss scaled(const Loss& loss, double scale) { return Loss::scaled(loss, scale); }
inline Loss composed(const Loss& f, const Loss& g) { return Loss::composed(f, g); }

}  // namespace topograd
