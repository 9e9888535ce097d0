// Names of the kinds of evaluation.
#include <topograd/runtime/engine.hpp>

namespace topograd::runtime {

std::string_view name(KernelKind kind) {
  switch (kind) {
    case KernelKind::residual: return "residual";
    case KernelKind::cost: return "cost";
    case KernelKind::gradient: return "gradient";
    case KernelKind::jacobian: return "jacobian";
    case KernelKind::jtjp: return "jtjp";
    case KernelKind::blocks: return "blocks";
    case KernelKind::jvp: return "jvp";
    case KernelKind::vjp: return "vjp";
  }
  return "";
}

}  // namespace topograd::runtime
