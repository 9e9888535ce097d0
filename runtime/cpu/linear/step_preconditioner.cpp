// Construction of preconditioners by name.
#include "step_preconditioner.hpp"

namespace topograd::runtime::cpu {

#define TG_PRECONDITIONER(name) \
  template <class T>            \
  std::unique_ptr<StepPreconditioner<T>> make_##name(Preconditioner asked);
#include "../../linear/preconditioners.def"
#undef TG_PRECONDITIONER

template <class T>
std::unique_ptr<StepPreconditioner<T>> make_preconditioner(Preconditioner asked) {
  switch (asked) {
    case Preconditioner::automatic: break;  // starts as block_jacobi
#define TG_PRECONDITIONER(name) \
  case Preconditioner::name:    \
    return make_##name<T>(asked);
#include "../../linear/preconditioners.def"
#undef TG_PRECONDITIONER
  }
  return make_two_level<T>(asked);
}
template std::unique_ptr<StepPreconditioner<float>> make_preconditioner(Preconditioner);
template std::unique_ptr<StepPreconditioner<double>> make_preconditioner(Preconditioner);

}  // namespace topograd::runtime::cpu
