// Accumulation strategies by name, and their needs.
#pragma once

#include "../ir/enum_table.hpp"

#include <string_view>

namespace topograd::codegen {

/// Accumulation strategies (docs/architecture.md). The gather strategies need no device features.
enum class Accumulation {
#define TG_ACCUMULATION(row, ...) row,
#include "accumulations.def"
};

/// Features that a strategy may need of a device.
struct AccumulationNeeds {
#define TG_ACCUMULATION_NEED(feature, missing) bool feature = false;
#include "accumulations.def"
};

/// A row of the table of strategies.
struct AccumulationRow {
  Accumulation value;
  std::string_view name;
  bool atomic = false;  ///< kernels are of Form::scatter; else gather and sum_terms
  AccumulationNeeds f32_needs = {}, f64_needs = {};  ///< by precision of the sums
};
inline constexpr AccumulationRow kAccumulations[] = {
#define TG_ACCUMULATION(row, ...) {.value = Accumulation::row, .name = #row, __VA_ARGS__},
#include "accumulations.def"
};
TG_ENUM_TABLE(Accumulation, kAccumulations)
constexpr const AccumulationRow& row_of(Accumulation accumulation) {
  return kAccumulations[static_cast<std::size_t>(accumulation)];
}
/// Throws an Error{InvalidArgument} that lists the names.
inline Accumulation parse_accumulation(std::string_view text) {
  return parse_enum<Accumulation>("accumulation", text);
}

}  // namespace topograd::codegen
