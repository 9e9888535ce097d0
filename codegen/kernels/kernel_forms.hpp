// The bodies of kernels by form, and additions to shared sums; generate() writes the rest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../glsl/shader.hpp"

namespace topograd::codegen {

/// Declares void add_to_results(uint position, {T} value) and the results that it adds to; one for
/// each atomic row of accumulations.def.
#define TG_ACCUMULATION(row, ...) void declare_##row(const KernelRequest& request, Shader& shader);
#include "../accumulations.def"

/// Facts about a body that generate() needs.
struct BodyFacts {
  std::array<std::uint32_t, ir::kOpCount> operations{};  ///< by op
  std::uint32_t bytes = 0;
  std::uint32_t statements = 0;  ///< if not those of `operations`, because of loops
};

BodyFacts write_store(const KernelRequest& request, Shader& shader);
BodyFacts write_reduce(const KernelRequest& request, Shader& shader);
BodyFacts write_scatter(const KernelRequest& request, Shader& shader);
BodyFacts write_gather(const KernelRequest& request, Shader& shader);
BodyFacts write_sum_terms(const KernelRequest& request, Shader& shader);

/// Writes "uint i = ..." and the return of invocations beyond the end.
void write_invocation_index(std::string_view variable, Shader& shader);

/// Throws Error{InvalidArgument} unless `got` == `expected`.
void expect_count(const KernelRequest& request, std::string_view what, std::size_t expected,
                  std::size_t got);

}  // namespace topograd::codegen
