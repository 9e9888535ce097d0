// Additions to sums that several invocations share.
#pragma once

#include "../glsl/shader.hpp"

namespace topograd::codegen {

/// Declares void add_to_results(uint position, {T} value) and the results that it adds to; one for
/// each atomic row of accumulations.def.
#define TG_ACCUMULATION(row, ...) void declare_##row(const KernelRequest& request, Shader& shader);
#include "../accumulations.def"

}  // namespace topograd::codegen
