// Kinks of scalar programs: where magnitudes and lengths are zero, and derivatives there.
#pragma once

#include "derivatives.hpp"
#include "sweep.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::autodiff {

/// Nodes of a program that are functions of one number's magnitude, or one length.
///
/// max(a, b) = (a + b + |a - b|) / 2, so abs(a - b), min(a, b) and max(a, b) have one kink
/// together: a sum of them may be smooth.
struct Kink {
  enum class Kind : std::uint8_t {
    Difference,  ///< |a - b| or |a|; b is kNone for the latter
    Root,        ///< square root of `a`, which is never negative
    Hypot        ///< hypot(a, b)
  };
  struct Member {
    ir::Id node;
    double weight;  ///< its derivative by the magnitude
  };
  Kind kind;
  ir::Id a = ir::kNone, b = ir::kNone;
  std::vector<Member> members;  ///< in ascending order
};

/// Kinks of the builder's program whose nodes depend on chosen parameters.
std::vector<Kink> find_kinks(Builder& builder, const std::vector<bool>& active);

/// True where the magnitude is zero.
Expr is_at(Builder& builder, const Kink& kink);

/// The adjoint of the magnitude; kNone if it is structurally zero.
Expr adjoint_of(Builder& builder, const Kink& kink, const Adjoints& adjoints);

/// Derivative of a node by the magnitude, other things equal; kNone if it is structurally zero.
Expr derivative_by(Builder& builder, const Kink& kink, Expr node);

/// A gradient, and what its own derivative needs where magnitudes are zero.
///
/// Let g be the adjoint of a length L = |v|. The gradient by v is g v / L, and 0 at L = 0. If g is
/// 0 there as well, its derivative is the limit of g / L, which is D = dg/dL, times that of v. Seed
/// leaves of `gradient` stand for the numbers D: they are constants when it is differentiated.
/// Kinks of differences have the mean of both sides' second derivatives by the same formula.
struct GradientWithLimits {
  ir::Program gradient;
  ir::Program limits;  ///< outputs: D by Seed slot; each reads only Seed leaves before its own
};

/// ∇E for the given slots; `limits` has no outputs if none are needed.
GradientWithLimits gradient_with_limits(const ir::Program& E, Slots slots);

/// The optimised program `f` with the numbers D in place of its Seed leaves.
ir::Program with_limits(const ir::Program& f, const ir::Program& limits);

/// Finds kinks of a scalar program.
struct KinkSearch {
  ir::Program program;      ///< output: index in `ops` of a kink at the point; -1 if there is none
  std::vector<ir::Op> ops;  ///< an op of each kink
  bool empty() const { return ops.empty(); }
};

/// Which kinks a search finds.
enum class KinksSought : std::uint8_t {
  lengths,  ///< without second derivatives: lengths whose adjoint is not zero or has no limit
  all,      ///< also differences whose adjoint is not zero
  falling   ///< those whose adjoint is negative: E falls to all sides, as far as they alone decide
};

/// Search for kinks.
///
/// Throws Error{Shape} if E has not exactly one output.
KinkSearch search_for_kinks(const ir::Program& E, Slots slots, KinksSought sought);

}  // namespace topograd::autodiff
