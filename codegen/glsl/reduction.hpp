// Sums and maxima over a workgroup, in a fixed order.
#pragma once

#include "shader.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace topograd::codegen {

/// Writes sums of many numbers: plain in f64, with compensation of rounding errors in f32.
class Summation {
 public:
  /// `precision` is that of the sums. Subgroup arithmetic is used for f64 sums only.
  Summation(Precision precision, std::uint32_t workgroup_size, bool use_subgroups = false);

  /// Declares a running sum of one invocation, initially zero.
  void begin(Shader& shader, std::string_view name) const;
  /// Adds an expression of type `type` to the running sum.
  void add(Shader& shader, std::string_view name, std::string_view expression,
           Precision type) const;
  /// Writes the total over the workgroup, valid in invocation 0. It has barriers, so every
  /// invocation must execute it.
  std::string total(Shader& shader, std::string_view name) const;

 private:
  Precision precision_;
  std::uint32_t workgroup_size_;
  bool use_subgroups_;
};

/// Writes the maximum over the workgroup of an expression, valid in invocation 0; NaN if any value
/// is.
std::string workgroup_max(Shader& shader, std::string_view expression, Precision precision,
                          std::uint32_t workgroup_size);
/// Declares tg_maximum of two numbers: NaN if either is.
std::string declare_maximum(Shader& shader, Precision precision);

}  // namespace topograd::codegen
