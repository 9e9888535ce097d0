// Choice of the accumulation strategy.
#include "accumulation_choice.hpp"

namespace topograd::runtime::vulkan {

using codegen::Accumulation;
using codegen::Precision;

AccumulationChoice choose_accumulation(std::optional<Accumulation> wanted, Precision precision,
                                       const Features& features) {
  const Accumulation strategy = wanted.value_or(Accumulation::gather_recompute);
  const codegen::AccumulationRow& row = codegen::row_of(strategy);
  const codegen::AccumulationNeeds& needs =
      precision == Precision::f64 ? row.f64_needs : row.f32_needs;
#define TG_ACCUMULATION_NEED(feature, missing) \
  if (needs.feature && !features.feature) return {Accumulation::gather_recompute, missing};
#include "../../../codegen/accumulations.def"
  return {strategy, ""};
}

}  // namespace topograd::runtime::vulkan
