// Vectors and sparse matrices of a model as callers of an Evaluator have them.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../../runtime/engine/engine.hpp"
#include "../../runtime/model/model.hpp"
#include "../evaluator.hpp"
#include "../linear/factor/normal_equations.hpp"
#include "../session/session.hpp"
#include "evaluated_problem.hpp"

namespace topograd {

inline std::span<double> span_of(Eigen::VectorXd& v) {
  return {v.data(), static_cast<std::size_t>(v.size())};
}

/// Sizes are those of the model, and derivatives by fixed scalars are zero.
class ModelVectors {
 public:
  /// The model outlives it.
  explicit ModelVectors(const runtime::Model& model) : model_(model) {}

  Eigen::VectorXd scalars() const {
    return Eigen::VectorXd(static_cast<Eigen::Index>(model_.scalars));
  }
  Eigen::VectorXd rows() const { return Eigen::VectorXd(static_cast<Eigen::Index>(model_.rows)); }
  bool is_fixed(std::uint32_t scalar) const {
    return !model_.constant.empty() && model_.constant[scalar];
  }

  Eigen::VectorXd masked(Eigen::VectorXd v) const {
    mask_fixed(model_, v);
    return v;
  }
  /// The same for a direction; valid until the next call.
  std::span<const double> free_part(std::span<const double> p) {
    if (model_.constant.empty()) return p;
    free_.assign(p.begin(), p.end());
    for (std::uint32_t k = 0; k < free_.size(); ++k) {
      if (is_fixed(k)) free_[k] = 0;
    }
    return free_;
  }

 private:
  const runtime::Model& model_;
  std::vector<double> free_;
};

/// J at the engine's point, with an entry for every free scalar that a residual reads.
Evaluator::SparseMatrix sparse_jacobian(runtime::Engine& engine, const EvaluatedProblem& problem);

/// JᵀJ or the Hessian at an engine's point, both triangles. Patterns are kept until the problem
/// changes.
class SquareMatrices {
 public:
  explicit SquareMatrices(const EvaluatedProblem& problem) : problem_(problem) {}

  /// Brings the matrix to the engine's point.
  void refresh_jtj(runtime::Engine& engine);
  void refresh_hessian(runtime::Engine& engine, bool project_psd);
  /// The matrix that was refreshed last.
  Evaluator::SparseMatrix jtj() const { return both_triangles(*jtj_.lower); }
  Evaluator::SparseMatrix hessian() const { return both_triangles(*hessian_.lower); }

 private:
  struct Lower {
    std::optional<NormalEquations> lower;
    std::uint64_t revision = 0;  // of the problem
  };
  NormalEquations& current(Lower& matrix, bool with_energies);
  Evaluator::SparseMatrix both_triangles(const NormalEquations& lower) const;

  const EvaluatedProblem& problem_;
  Lower jtj_, hessian_;
};

}  // namespace topograd
