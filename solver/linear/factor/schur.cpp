// Factorisation by the Schur complement of separately eliminated blocks.
#include "factorization.hpp"

#include "complement.hpp"
#include "schur_parts.hpp"

namespace topograd {
namespace {

class Schur final : public Factorization {
 public:
  Schur(const SparseMatrix& lower, const Elimination& elimination,
        const runtime::cpu::CpuWork& work)
      : parts_(lower, elimination, work.threads),
        complement_(parts_.layout(), parts_.positions().B, work) {}

  bool factor(const SparseMatrix& lower) override {
    return parts_.eliminate(lower.valuePtr()) &&
           complement_.factor(lower.valuePtr(), parts_.couplings());
  }

  Eigen::VectorXd solve(const Eigen::VectorXd& right) const override {
    return parts_.expand(complement_.solve(parts_.reduce(right)), right);
  }

  double entries() const override {
    return static_cast<double>(parts_.entries()) + complement_.entries();
  }
  double flops() const override { return complement_.products() + complement_.flops(); }

 private:
  SchurParts parts_;
  Complement complement_;
};

}  // namespace

std::unique_ptr<Factorization> make_schur_factorization(
    const SparseMatrix& pattern, const Elimination& elimination, const runtime::cpu::CpuWork& work,
    const std::optional<SchurIteration>& limits) {
  if (limits) return make_iterative_schur(pattern, elimination, *limits, work);
  return std::make_unique<Schur>(pattern, elimination, work);
}

}  // namespace topograd
