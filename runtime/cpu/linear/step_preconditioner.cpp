// Makes the preconditioner that was asked for.
#include "step_preconditioner.hpp"

namespace topograd::runtime::cpu {

template <class T>
std::unique_ptr<StepPreconditioner<T>> make_block_jacobi(Preconditioner asked);
template <class T>
std::unique_ptr<StepPreconditioner<T>> make_two_level(Preconditioner asked);

template <class T>
std::unique_ptr<StepPreconditioner<T>> make_preconditioner(Preconditioner asked) {
  switch (asked) {
    case Preconditioner::block_jacobi: return make_block_jacobi<T>(asked);
    case Preconditioner::automatic:  // begins with blocks
    case Preconditioner::two_level: break;
  }
  return make_two_level<T>(asked);
}
template std::unique_ptr<StepPreconditioner<float>> make_preconditioner(Preconditioner);
template std::unique_ptr<StepPreconditioner<double>> make_preconditioner(Preconditioner);

}  // namespace topograd::runtime::cpu
