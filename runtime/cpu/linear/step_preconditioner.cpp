// Construction of preconditioners by name.
#include "step_preconditioner.hpp"

#include "../../../ir/error.hpp"

#include <string>

namespace topograd::runtime::cpu {

#define TG_PRECONDITIONER(row, ...) \
  template <class T>                \
  std::unique_ptr<StepPreconditioner<T>> make_##row(Preconditioner asked);
#include "../../linear/preconditioners.def"

template <class T>
std::unique_ptr<StepPreconditioner<T>> make_preconditioner(Preconditioner asked) {
  // The two-level one begins as block_jacobi.
  if (asked == Preconditioner::automatic) return make_two_level<T>(asked);
#define TG_PRECONDITIONER(row, ...)                                               \
  if constexpr (PreconditionerRow{.value = {}, .name = {}, __VA_ARGS__}.on_cpu) { \
    if (asked == Preconditioner::row) return make_##row<T>(asked);                \
  }
#include "../../linear/preconditioners.def"
  throw Error(ErrorCode::Unsupported, "cpu engine: the preconditioner exists on devices alone");
}
template std::unique_ptr<StepPreconditioner<float>> make_preconditioner(Preconditioner);
template std::unique_ptr<StepPreconditioner<double>> make_preconditioner(Preconditioner);

}  // namespace topograd::runtime::cpu
