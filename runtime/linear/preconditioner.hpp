// Preconditioners of conjugate gradients by name, and the reasons for their use.
#pragma once

#include "../../ir/enum_table.hpp"
#include "why.hpp"

#include <cstdint>
#include <string_view>

namespace topograd::runtime {

/// Preconditioners of conjugate gradients (preconditioners.def).
enum class Preconditioner {
  automatic,
#define TG_PRECONDITIONER(row, ...) row,
#include "preconditioners.def"
};

/// A row of the table; `automatic` comes first.
struct PreconditionerRow {
  Preconditioner value;
  std::string_view name;
  std::string_view help = {};            ///< M⁻¹, where D has A's diagonal blocks
  bool on_cpu = true, on_device = true;  ///< the engines that have it
};
inline constexpr PreconditionerRow kPreconditioners[] = {
    {.value = Preconditioner::automatic,
     .name = "automatic",
     .help = "block-Jacobi until its iterations have cost as many products as the coarse matrix "
             "takes, then two-level"},
#define TG_PRECONDITIONER(row, ...) {.value = Preconditioner::row, .name = #row, __VA_ARGS__},
#include "preconditioners.def"
};
TG_ENUM_TABLE(Preconditioner, kPreconditioners)

enum class PreconditionerReason {
#define TG_PRECONDITIONER_REASON(reason, sentence) reason,
#include "preconditioners.def"
};

inline constexpr PreconditionerReason kLastPreconditionerReason{0
#define TG_PRECONDITIONER_REASON(reason, sentence) +1
#include "preconditioners.def"
                                                                - 1};

/// The preconditioner of an engine's steps.
struct PreconditionerUse {
  Preconditioner kind = Preconditioner::block_jacobi;  ///< the last one in use
  bool asked_for = false;                              ///< options name the one in use
  Why<PreconditionerReason> why = {};
  int builds = 0;              ///< of coarse matrices in this solve
  std::uint64_t products = 0;  ///< products with JᵀJ for these builds
};

/// Decides which preconditioner an engine is asked for: `asked`, or block_jacobi where the engine
/// lacks it.
constexpr PreconditionerUse decide_preconditioner(Preconditioner asked, bool on_device) {
  for (const PreconditionerRow& row : kPreconditioners) {
    if (row.value == asked && !(on_device ? row.on_device : row.on_cpu))
      return {.why = {on_device ? PreconditionerReason::not_on_device
                                : PreconditionerReason::not_on_cpu}};
  }
  return {.kind = asked, .asked_for = asked != Preconditioner::automatic};
}

}  // namespace topograd::runtime
