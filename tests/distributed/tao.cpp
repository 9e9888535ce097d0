// TAOBRGN on shells around an Evaluator.
#include "tao.hpp"

#include "../../distributed/petsc_krylov.hpp"
#include "../../solver/evaluator.hpp"

#include <petsctao.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <vector>

namespace topograd::test {
namespace {

using distributed::check;

struct Context {
  Evaluator& evaluator;
  std::vector<double> x;
};

PetscErrorCode residuals(Tao, Vec x, Vec out, void* context) {
  auto& of = *static_cast<Context*>(context);
  const double* from = nullptr;
  double* to = nullptr;
  PetscCall(VecGetArrayRead(x, &from));
  of.x.assign(from, from + of.x.size());
  PetscCall(VecRestoreArrayRead(x, &from));
  const Eigen::VectorXd r = of.evaluator.residuals(of.x);
  PetscCall(VecGetArrayWrite(out, &to));
  std::ranges::copy(r, to);
  PetscCall(VecRestoreArrayWrite(out, &to));
  return 0;
}

PetscErrorCode jacobian(Tao, Vec x, ::Mat, ::Mat, void* context) {
  auto& of = *static_cast<Context*>(context);
  const double* from = nullptr;
  PetscCall(VecGetArrayRead(x, &from));
  of.x.assign(from, from + of.x.size());
  PetscCall(VecRestoreArrayRead(x, &from));
  return 0;
}

template <class F>
PetscErrorCode product(::Mat mat, Vec in, Vec out, const F& f) {
  Context* of = nullptr;
  PetscCall(MatShellGetContext(mat, static_cast<void*>(&of)));
  const double* from = nullptr;
  double* to = nullptr;
  PetscInt size = 0;
  PetscCall(VecGetSize(in, &size));
  PetscCall(VecGetArrayRead(in, &from));
  const Eigen::VectorXd answer = f(*of, std::span(from, static_cast<std::size_t>(size)));
  PetscCall(VecRestoreArrayRead(in, &from));
  PetscCall(VecGetArrayWrite(out, &to));
  std::ranges::copy(answer, to);
  PetscCall(VecRestoreArrayWrite(out, &to));
  return 0;
}

PetscErrorCode multiply(::Mat mat, Vec in, Vec out) {
  return product(mat, in, out,
                 [](Context& of, std::span<const double> p) { return of.evaluator.jvp(of.x, p); });
}

PetscErrorCode multiply_transposed(::Mat mat, Vec in, Vec out) {
  return product(mat, in, out,
                 [](Context& of, std::span<const double> u) { return of.evaluator.vjp(of.x, u); });
}

}  // namespace

std::string tao_text(Case& of) {
  Evaluator evaluator(*of.problem, {.backend = Backend::cpu});
  Context context{evaluator, {}};
  for (const std::span<const double> part : of.unknowns)
    context.x.insert(context.x.end(), part.begin(), part.end());
  const auto n = static_cast<PetscInt>(context.x.size());
  const auto m = static_cast<PetscInt>(evaluator.residuals(context.x).size());
  Vec x = nullptr, r = nullptr;
  ::Mat jacobian_shell = nullptr;
  Tao tao = nullptr;
  check(VecCreateSeq(PETSC_COMM_SELF, n, &x));
  check(VecCreateSeq(PETSC_COMM_SELF, m, &r));
  double* numbers = nullptr;
  check(VecGetArrayWrite(x, &numbers));
  std::ranges::copy(context.x, numbers);
  check(VecRestoreArrayWrite(x, &numbers));
  check(MatCreateShell(PETSC_COMM_SELF, m, n, m, n, &context, &jacobian_shell));
  check(MatShellSetOperation(jacobian_shell, MATOP_MULT, reinterpret_cast<void (*)()>(multiply)));
  check(MatShellSetOperation(jacobian_shell, MATOP_MULT_TRANSPOSE,
                             reinterpret_cast<void (*)()>(multiply_transposed)));
  check(TaoCreate(PETSC_COMM_SELF, &tao));
  check(TaoSetType(tao, TAOBRGN));
  check(TaoSetSolution(tao, x));
  check(TaoSetResidualRoutine(tao, r, residuals, &context));
  check(TaoSetJacobianResidualRoutine(tao, jacobian_shell, jacobian_shell, jacobian, &context));
  check(TaoSetTolerances(tao, 1e-9, 1e-11, 0));
  check(TaoSetMaximumIterations(tao, 500));
  check(TaoSetFromOptions(tao));
  check(TaoSolve(tao));
  const double* found = nullptr;
  check(VecGetArrayRead(x, &found));
  std::copy_n(found, context.x.size(), context.x.begin());
  check(VecRestoreArrayRead(x, &found));
  check(TaoDestroy(&tao));
  check(MatDestroy(&jacobian_shell));
  check(VecDestroy(&r));
  check(VecDestroy(&x));
  char text[40];
  std::snprintf(text, sizeof text, "%.17g\n", evaluator.cost(context.x));
  return text;
}

}  // namespace topograd::test
