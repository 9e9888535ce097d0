// Sums and maxima over a workgroup, in a fixed order.
#pragma once

#include "shader.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

  /// Numbers of a buffer, from `first` on.
  struct PartialSums {
    std::string_view name;
    std::string buffer, first;
  };
  /// Declares by their names, in every invocation, the totals of one or two runs of `count`
  /// numbers, once in a shader. They have the bits of total().
  void totals(Shader& shader, std::span<const PartialSums> of, std::string_view count) const;

 private:
  void need_subgroups(Shader& shader) const;
  void declare_totals(Shader& shader, std::size_t count) const;

  Precision precision_;
  std::uint32_t workgroup_size_;
  bool use_subgroups_;
};

/// Writes sums of products of two numbers. Where factors are f32 and sums f64, a sum is a vec2, a
/// float and its rounding errors: nearly as exact as f64, which is slow on many devices and
/// emulated on others. Products below 2^-78 lose these errors, and products above 2^127 overflow;
/// factors of a sum whose size is known are multiplied by a power of two, and stay away from both.
class ProductSum {
 public:
  struct Product {
    std::string a, b;
  };

  ProductSum(Precision factors, Precision sums, std::uint32_t workgroup_size,
             bool use_subgroups = false)
      : factors_(factors),
        sums_(sums),
        group_(workgroup_size),
        plain_(sums, group_, use_subgroups) {}

  /// Tells whether sums are pairs.
  bool has_pairs() const { return factors_ == Precision::f32 && sums_ == Precision::f64; }

  /// Declares a running sum of one invocation, initially zero. `size` is an expression for about
  /// what the total is; empty if it is not known.
  void begin(Shader& shader, std::string_view name, std::string_view size = "");
  /// Products that need not be `exact` are rounded to f32 if sums are pairs.
  void add(Shader& shader, std::string_view name, std::span<const Product> products,
           bool exact = true) const;
  /// Writes the total over the workgroup, as Summation does.
  std::string total(Shader& shader, std::string_view name) const;

  /// One of these functions, which it declares:
  ///
  ///   vec2 add_product(vec2 sum, float a, float b)
  ///   vec2 add_rounded(vec2 sum, float a, float b)
  ///   vec2 compensated_add(vec2 a, vec2 b)
  ///   float pair_float(vec2 sum), double pair_double(vec2 sum)
  ///   double workgroup_pairs(vec2 sum)   as total()
  std::string_view function(Shader& shader, std::string_view name) const;

 private:
  bool is_scaled(std::string_view name) const;

  Precision factors_, sums_;
  std::uint32_t group_;
  Summation plain_;
  std::vector<std::string> scaled_;
};

/// Writes the maximum over the workgroup of an expression, valid in invocation 0; NaN if any value
/// is.
std::string workgroup_max(Shader& shader, std::string_view expression, Precision precision,
                          std::uint32_t workgroup_size);
/// Declares tg_maximum of two numbers: NaN if either is.
std::string declare_maximum(Shader& shader, Precision precision);

}  // namespace topograd::codegen
