// Sparse Cholesky factorisation by CHOLMOD or by Eigen.
#include "blas_threads.hpp"
#include "factorization.hpp"

#ifdef TOPOGRAD_CHOLMOD
#include <Eigen/CholmodSupport>
#else
#include <Eigen/SparseCholesky>
#endif

#include <algorithm>
#include <thread>

namespace topograd {
namespace {

#ifdef TOPOGRAD_CHOLMOD
constexpr bool kTellsCost = true;
using Factor = Eigen::CholmodSupernodalLLT<SparseMatrix, Eigen::Lower>;
#else
constexpr bool kTellsCost = false;
using Factor = Eigen::SimplicialLLT<SparseMatrix, Eigen::Lower, Eigen::AMDOrdering<int> >;
#endif

class Sparse final : public Factorization {
 public:
  explicit Sparse(const SparseMatrix& pattern) {
#ifdef TOPOGRAD_CHOLMOD
    common().print = 0;  // otherwise it writes warnings to the standard output
#endif
    factor_.analyzePattern(pattern);
  }

  bool factor(const SparseMatrix& lower) override {
#ifdef TOPOGRAD_CHOLMOD
    require_blas_buffer();
#endif
    [[maybe_unused]] const auto limit = limit_blas();
    factor_.factorize(lower);
    return factor_.info() == Eigen::Success;
  }
  Eigen::VectorXd solve(const Eigen::VectorXd& right) const override {
    [[maybe_unused]] const auto limit = limit_blas();
    return factor_.solve(right);
  }
#ifdef TOPOGRAD_CHOLMOD
  double entries() const override { return common().lnz; }
  double flops() const override { return common().fl; }

 private:
  BlasThreadLimit limit_blas() const {
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    return BlasThreadLimit(blas_threads(flops(), std::max(cores, 1)));
  }
  // Eigen has no const access to it.
  cholmod_common& common() const { return const_cast<Factor&>(factor_).cholmod(); }
#else

 private:
  bool limit_blas() const { return true; }  // Eigen calls no BLAS
#endif

  Factor factor_;
};

}  // namespace

bool factor_cost_is_known() { return kTellsCost; }

std::unique_ptr<Factorization> make_sparse_factorization(const SparseMatrix& pattern) {
  return std::make_unique<Sparse>(pattern);
}

}  // namespace topograd
