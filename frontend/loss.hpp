// Robust losses: functions that replace the squares of residual blocks in the cost.
#pragma once

#include "../ir/program.hpp"
#include "value/math.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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
  enum class Kind : std::uint8_t {
    trivial,
#define TG_LOSS1(loss, ...) loss,
#define TG_LOSS2(loss, ...) loss,
#include "losses.def"
  };

  /// ρ(s) = s.
  Loss() = default;
  static Loss trivial() { return {}; }

  // The built-in losses (losses.def). If there is only one number it is the residual at which
  // outliers begin, in residual units, and > 0; if there are two, a >= 0 and b > 0. Throw
  // Error{InvalidArgument} for other numbers, and for those that are not finite.
#define TG_LOSS1(loss, ...) static Loss loss(double a);
#define TG_LOSS2(loss, ...) static Loss loss(double a, double b);
#include "losses.def"
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

#define TG_LOSS1(loss, ...) \
  inline Loss loss(double a) { return Loss::loss(a); }
#define TG_LOSS2(loss, ...) \
  inline Loss loss(double a, double b) { return Loss::loss(a, b); }
#include "losses.def"
inline Loss scaled(const Loss& loss, double scale) { return Loss::scaled(loss, scale); }
inline Loss composed(const Loss& f, const Loss& g) { return Loss::composed(f, g); }

/// A built-in loss by name; one of the two functions is set.
struct LossRow {
  std::string_view name, formula;
  Loss (*one)(double a) = nullptr;
  Loss (*two)(double a, double b) = nullptr;
};
inline constexpr LossRow kLosses[] = {
#define TG_LOSS1(loss, type, rho, at, formula) {#loss, formula, Loss::loss, nullptr},
#define TG_LOSS2(loss, type, rho, at, formula) {#loss, formula, nullptr, Loss::loss},
#include "losses.def"
};

/// The built-in loss with this name; null if there is none, as for "trivial", which has no row.
const LossRow* find_loss(std::string_view name);
/// How many numbers a loss takes: 1 or 2.
std::size_t number_count(const LossRow& loss);
/// The loss with number_count(loss) numbers. Throws what its function throws.
Loss make_loss(const LossRow& loss, std::span<const double> numbers);

}  // namespace topograd
