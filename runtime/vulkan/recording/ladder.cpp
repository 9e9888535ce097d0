// Choice of the accumulation rung.
#include "ladder.hpp"

namespace topograd::runtime::vulkan {

using codegen::Accumulation;
using codegen::Precision;

Rung resolve_rung(std::optional<Accumulation> wanted, Precision precision,
                  const Features& features) {
  const Accumulation rung = wanted.value_or(Accumulation::gather_recompute);
  const bool wide = precision == Precision::f64;
  switch (rung) {
    case Accumulation::gather_store:
    case Accumulation::gather_recompute: return {rung, ""};
    case Accumulation::atomic_float:
      if (wide ? features.atomic_float64_add : features.atomic_float32_add) return {rung, ""};
      return {Accumulation::gather_recompute, wide ? "no float64 atomics" : "no float32 atomics"};
    case Accumulation::atomic_cas:
      if (!wide || features.int64_atomics) return {rung, ""};
      return {Accumulation::gather_recompute, "no 64-bit integer atomics"};
  }
  return {};
}

}  // namespace topograd::runtime::vulkan
