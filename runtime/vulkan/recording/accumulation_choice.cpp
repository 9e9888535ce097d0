// Choice of the accumulation strategy.
#include "accumulation_choice.hpp"

namespace topograd::runtime::vulkan {

using codegen::Accumulation;
using codegen::Precision;

namespace {

constexpr struct {
  std::uint32_t need;
  bool Features::*there;
  const char* missing;
} kNeeds[] = {
    {codegen::kNeedsFloat32Atomics, &Features::atomic_float32_add, "no float32 atomics"},
    {codegen::kNeedsFloat64Atomics, &Features::atomic_float64_add, "no float64 atomics"},
    {codegen::kNeedsInt64Atomics, &Features::int64_atomics, "no 64-bit integer atomics"},
    {codegen::kNeedsSubgroupArithmetic, &Features::subgroup_arithmetic, "no subgroup arithmetic"}};

}  // namespace

AccumulationChoice choose_accumulation(std::optional<Accumulation> wanted, Precision precision,
                                       const Features& features) {
  const Accumulation strategy = wanted.value_or(Accumulation::gather_recompute);
  const codegen::AccumulationRow& row = codegen::row_of(strategy);
  const std::uint32_t needs = precision == Precision::f64 ? row.f64_needs : row.f32_needs;
  for (const auto& need : kNeeds) {
    if ((needs & need.need) != 0 && !(features.*need.there))
      return {Accumulation::gather_recompute, need.missing};
  }
  return {strategy, ""};
}

}  // namespace topograd::runtime::vulkan
