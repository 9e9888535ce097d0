// Normal equations as a sparse matrix.
#include "normal_equations.hpp"
#include "normal_system.hpp"
#include "undetermined_blocks.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace topograd {
namespace {

class MatrixSystem final : public NormalSystem {
 public:
  MatrixSystem(const runtime::Model& model, int threads)
      : normal_(model, false, threads), undetermined_(model, normal_), damped_(view()) {}

  /// The lower triangle, whose pattern factorisations are made for.
  const SparseMatrix& pattern() const { return damped_; }
  ///   vanishing  share of its diagonal entry at which a pivot vanishes
  ///   strict     factor() fails then
  void use(std::unique_ptr<Factorization> factorization, double vanishing = 0,
           bool strict = false) {
    factor_ = std::move(factorization);
    vanishing_ = vanishing;
    strict_ = strict;
  }

  std::span<const std::uint32_t> free_scalars() const override { return normal_.free_scalars(); }
  void refresh(runtime::Engine& engine) override { normal_.refresh(engine); }
  double diagonal(std::size_t k) const override { return normal_.diagonal(k); }
  void damping_diagonal(std::vector<double>& out) const override {
    undetermined_.diagonal(normal_, out);
  }

  bool factor(std::span<const double> damping, const Eigen::VectorXd& right) override {
    std::ranges::copy(normal_.values(), damped_.valuePtr());
    for (std::size_t k = 0; k < normal_.size(); ++k)
      damped_.valuePtr()[normal_.starts()[k]] += damping[k];
    right_ = right;
    return factor_->factor(damped_) && !(strict_ && factor_->vanished() > 0);
  }
  Eigen::VectorXd solve() override { return factor_->solve(right_); }
  double square(const Eigen::VectorXd& v) const override {
    return v.dot(view().selfadjointView<Eigen::Lower>() * v);
  }

  int iterations() const override { return factor_->iterations(); }
  double entries() const override { return factor_->entries(); }
  double flops() const override { return factor_->flops(); }
  std::uint64_t vanished() const override { return factor_->vanished(); }
  double hidden_decrease(const Eigen::VectorXd& solution) const override {
    if (vanished() == 0) return 0;
    const Eigen::VectorXd left = right_ - damped_.selfadjointView<Eigen::Lower>() * solution;
    double hidden = 0;
    for (std::size_t k = 0; k < normal_.size(); ++k) {
      const double entry = normal_.diagonal(k);
      const double component = left[static_cast<Eigen::Index>(k)];
      if (entry > 0) hidden += component * component / (2 * vanishing_ * entry);
    }
    return hidden;
  }

 private:
  /// The lower triangle of JᵀJ as Eigen sees it.
  Eigen::Map<const SparseMatrix> view() const {
    const auto n = static_cast<Eigen::Index>(normal_.size());
    return {n,
            n,
            static_cast<Eigen::Index>(normal_.values().size()),
            normal_.starts().data(),
            normal_.rows().data(),
            normal_.values().data()};
  }

  NormalEquations normal_;
  UndeterminedBlocks undetermined_;
  SparseMatrix damped_;  // JᵀJ + D, lower triangle
  Eigen::VectorXd right_;
  std::unique_ptr<Factorization> factor_;
  double vanishing_ = 0;
  bool strict_ = false;
};

}  // namespace

std::unique_ptr<NormalSystem> make_matrix_system(const runtime::Model& model,
                                                 const runtime::cpu::CpuWork& work,
                                                 FactorPlace factor, std::uint64_t strict_up_to,
                                                 double units) {
  auto system = std::make_unique<MatrixSystem>(model, work.threads);
  const std::size_t unknowns = system->size();
  const bool strict = unknowns <= strict_up_to;
  const double share = runtime::vanishing_share(unknowns, std::numeric_limits<double>::epsilon());
  const double vanishing = strict ? units * share : share;
  system->use(make_sparse_factorization(system->pattern(), work, factor, {vanishing}), vanishing,
              strict);
  return system;
}

std::unique_ptr<NormalSystem> make_iterative_system(const runtime::Model& model,
                                                    const runtime::cpu::CpuWork& work,
                                                    const Elimination& elimination,
                                                    const SchurIteration& limits) {
  auto system = std::make_unique<MatrixSystem>(model, work.threads);
  system->use(make_iterative_schur(system->pattern(), elimination, limits, work));
  return system;
}

}  // namespace topograd
