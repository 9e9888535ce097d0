// Sums and maxima over a workgroup, in a fixed order.
#pragma once

#include "shader.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace topograd::codegen {

/// How a kernel adds many numbers: in f64 plainly, in f32 with the rounding errors carried along.
class Summation {
 public:
  /// `precision` is that of the sums. Subgroup arithmetic serves f64 sums only.
  Summation(Precision precision, std::uint32_t workgroup_size, bool use_subgroups = false);

  /// Declares a running sum of one invocation, zero at first.
  void begin(Shader& shader, std::string_view name) const;
  /// Adds an expression of type `type` to it.
  void add(Shader& shader, std::string_view name, std::string_view expression,
           Precision type) const;
  /// The total over the workgroup, valid in invocation 0. Every invocation must come by: it holds
  /// barriers.
  std::string total(Shader& shader, std::string_view name) const;

 private:
  Precision precision_;
  std::uint32_t workgroup_size_;
  bool use_subgroups_;
};

/// The maximum over the workgroup of an expression of that precision, valid in invocation 0; NaN if
/// one is.
std::string workgroup_max(Shader& shader, std::string_view expression, Precision precision,
                          std::uint32_t workgroup_size);
/// Declares tg_maximum of two numbers: NaN if one is.
std::string declare_maximum(Shader& shader, Precision precision);

}  // namespace topograd::codegen
