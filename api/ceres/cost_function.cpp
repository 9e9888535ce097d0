// The key functions of cost functions.
#include <topograd/api/ceres/cost_function.hpp>

namespace ceres {

CostFunction::~CostFunction() = default;
internal::Traceable::~Traceable() = default;

}  // namespace ceres
