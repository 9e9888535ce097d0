// Shells around the operators of a step, and KSP on them.
#include "petsc_krylov.hpp"

#include <algorithm>
#include <vector>

namespace topograd::distributed {
namespace {

using runtime::cpu::HostPreconditioner;
using runtime::cpu::LinearOperator;

/// PETSc's vectors have the own scalars one after the other; those of the engine have ghosts
/// between them.
struct Operators {
  LinearOperator<double>& matrix;
  HostPreconditioner<double>& preconditioner;
  std::vector<double> from, to;  // with ghosts

  /// Calls f(range, its first scalar in PETSc's vectors).
  template <class F>
  void for_own(const F& f) const {
    std::size_t at = 0;
    for (std::size_t k = 0; k < preconditioner.ranges(); ++k) {
      const auto range = preconditioner.range(k);
      f(k, range, at);
      at += range.end - range.begin;
    }
  }
  void unpack(const double* packed, double* here) const {
    for_own([&](std::size_t, auto range, std::size_t at) {
      std::copy_n(packed + at, range.end - range.begin, here + range.begin);
    });
  }
  void pack(const double* here, double* packed) const {
    for_own([&](std::size_t, auto range, std::size_t at) {
      std::copy_n(here + range.begin, range.end - range.begin, packed + at);
    });
  }
};

/// out = f(in), both of PETSc.
template <class F>
PetscErrorCode apply(Operators& operators, Vec in, Vec out, const F& f) {
  const double* from = nullptr;
  double* to = nullptr;
  PetscCall(VecGetArrayRead(in, &from));
  operators.unpack(from, operators.from.data());
  PetscCall(VecRestoreArrayRead(in, &from));
  f();
  PetscCall(VecGetArrayWrite(out, &to));
  operators.pack(operators.to.data(), to);
  PetscCall(VecRestoreArrayWrite(out, &to));
  return 0;
}

PetscErrorCode multiply(::Mat mat, Vec in, Vec out) {
  Operators* operators = nullptr;
  PetscCall(MatShellGetContext(mat, static_cast<void*>(&operators)));
  return apply(*operators, in, out,
               [&] { operators->matrix.multiply(operators->from.data(), operators->to.data()); });
}

PetscErrorCode precondition(PC pc, Vec in, Vec out) {
  Operators* operators = nullptr;
  PetscCall(PCShellGetContext(pc, static_cast<void*>(&operators)));
  return apply(*operators, in, out, [&] {
    for (std::size_t k = 0; k < operators->preconditioner.ranges(); ++k)
      operators->preconditioner.apply(k, operators->from.data(), operators->to.data());
  });
}

}  // namespace

runtime::cpu::CgReport PetscKrylov::solve(LinearOperator<double>& matrix,
                                          HostPreconditioner<double>& preconditioner,
                                          std::span<const double> b, std::span<double> x,
                                          const runtime::cpu::CgOptions& options) {
  Operators operators{matrix, preconditioner, std::vector<double>(b.size()),
                      std::vector<double>(b.size())};
  PetscInt own = 0;
  operators.for_own([&](std::size_t, auto range, std::size_t) {
    own += static_cast<PetscInt>(range.end - range.begin);
  });
  Vec right = nullptr, answer = nullptr;
  ::Mat shell = nullptr;
  KSP ksp = nullptr;
  PC pc = nullptr;
  check(VecCreateMPI(ranks_.comm(), own, PETSC_DETERMINE, &right));
  check(VecDuplicate(right, &answer));
  double* numbers = nullptr;
  check(VecGetArrayWrite(right, &numbers));
  operators.pack(b.data(), numbers);
  check(VecRestoreArrayWrite(right, &numbers));

  check(MatCreateShell(ranks_.comm(), own, own, PETSC_DETERMINE, PETSC_DETERMINE, &operators,
                       &shell));
  check(MatShellSetOperation(shell, MATOP_MULT, reinterpret_cast<void (*)()>(multiply)));
  check(MatSetOption(shell, MAT_SPD, PETSC_TRUE));
  check(KSPCreate(ranks_.comm(), &ksp));
  check(KSPSetOperators(ksp, shell, shell));
  check(KSPSetType(ksp, KSPCG));
  check(KSPSetNormType(ksp, options.in_energy ? KSP_NORM_NATURAL : KSP_NORM_UNPRECONDITIONED));
  check(KSPSetTolerances(ksp, options.tolerance, PETSC_DEFAULT, PETSC_DEFAULT,
                         options.max_iterations));
  check(KSPGetPC(ksp, &pc));
  check(PCSetType(pc, PCSHELL));
  check(PCShellSetContext(pc, &operators));
  check(PCShellSetApply(pc, precondition));
  check(KSPSetFromOptions(ksp));
  check(KSPSolve(ksp, right, answer));

  PetscInt iterations = 0;
  KSPConvergedReason reason = KSP_CONVERGED_ITERATING;
  check(KSPGetIterationNumber(ksp, &iterations));
  check(KSPGetConvergedReason(ksp, &reason));
  const double* found = nullptr;
  check(VecGetArrayRead(answer, &found));
  operators.unpack(found, x.data());
  check(VecRestoreArrayRead(answer, &found));
  check(KSPDestroy(&ksp));
  check(MatDestroy(&shell));
  check(VecDestroy(&answer));
  check(VecDestroy(&right));
  using runtime::cpu::CgEnd;
  return {.iterations = static_cast<int>(iterations),
          .products = static_cast<int>(iterations) + 1,
          .end = reason > 0                   ? CgEnd::converged
                 : reason == KSP_DIVERGED_ITS ? CgEnd::limit
                                              : CgEnd::breakdown};
}

}  // namespace topograd::distributed
