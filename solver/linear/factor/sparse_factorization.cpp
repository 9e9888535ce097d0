// Sparse Cholesky factorisation by our own fronts, or by CHOLMOD if it was built in.
#include "factorization.hpp"

#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/factor/sparse_factor.hpp"
#include "lower_pattern.hpp"

#include <cstddef>

#ifdef TOPOGRAD_CHOLMOD
#include "blas_threads.hpp"

#include <Eigen/CholmodSupport>

#include <algorithm>
#include <thread>
#endif

namespace topograd {
namespace {

#ifdef TOPOGRAD_CHOLMOD

class Cholmod final : public Factorization {
 public:
  explicit Cholmod(const SparseMatrix& pattern) {
    common().print = 0;  // otherwise it writes warnings to the standard output
    factor_.analyzePattern(pattern);
  }

  bool factor(const SparseMatrix& lower) override {
    require_blas_buffer();
    const BlasThreadLimit limit = limit_blas();
    factor_.factorize(lower);
    return factor_.info() == Eigen::Success;
  }
  Eigen::VectorXd solve(const Eigen::VectorXd& right) const override {
    const BlasThreadLimit limit = limit_blas();
    return factor_.solve(right);
  }
  double entries() const override { return common().lnz; }
  double flops() const override { return common().fl; }

 private:
  using Factor = Eigen::CholmodSupernodalLLT<SparseMatrix, Eigen::Lower>;

  BlasThreadLimit limit_blas() const {
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    return BlasThreadLimit(blas_threads(flops(), std::max(cores, 1)));
  }
  // Eigen has no const access to it.
  cholmod_common& common() const { return const_cast<Factor&>(factor_).cholmod(); }

  Factor factor_;
};

#endif

class Fronts final : public Factorization {
 public:
  Fronts(const SparseMatrix& pattern, const runtime::cpu::CpuWork& work,
         const runtime::PivotRule& rule)
      : factor_(runtime::make_factor_plan(pattern_of(pattern)), work.threads,
                runtime::cpu::front_kernels(work.bits)),
        rule_(rule) {}

  bool factor(const SparseMatrix& lower) override {
    const runtime::FactorReport report = factor_.factor(values_of(lower), rule_);
    vanished_ = report.vanished;
    return report.end == runtime::FactorEnd::complete;
  }
  Eigen::VectorXd solve(const Eigen::VectorXd& right) const override {
    const auto n = static_cast<std::size_t>(right.size());
    Eigen::VectorXd solution(right.size());
    factor_.solve({right.data(), n}, {solution.data(), n});
    return solution;
  }
  double entries() const override { return factor_.plan().nonzeros; }
  double flops() const override { return factor_.plan().operations; }
  std::uint64_t vanished() const override { return vanished_; }

 private:
  runtime::cpu::SparseFactor factor_;
  runtime::PivotRule rule_;
  std::uint64_t vanished_ = 0;
};

}  // namespace

FactorPlace used_on_host(FactorPlace backend) {
#ifdef TOPOGRAD_CHOLMOD
  if (backend != FactorPlace::host) return FactorPlace::cholmod;
#endif
  return backend == FactorPlace::cholmod ? FactorPlace::cholmod : FactorPlace::host;
}

std::unique_ptr<Factorization> make_sparse_factorization(const SparseMatrix& pattern,
                                                         const runtime::cpu::CpuWork& work,
                                                         FactorPlace backend,
                                                         const runtime::PivotRule& rule) {
#ifdef TOPOGRAD_CHOLMOD
  if (used_on_host(backend) == FactorPlace::cholmod) return std::make_unique<Cholmod>(pattern);
#endif
  if (used_on_host(backend) != FactorPlace::host)
    throw Error(ErrorCode::Internal, "factor cholmod: resolved() was not called");
  return std::make_unique<Fronts>(pattern, work, rule);
}

}  // namespace topograd
