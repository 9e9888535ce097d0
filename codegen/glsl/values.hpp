// What a kernel gives beside its own results: a part of the cost, and rows.
#pragma once

#include "program.hpp"
#include "reduction.hpp"

#include <cstddef>
#include <optional>
#include <string_view>

namespace topograd::codegen {

/// Text for KernelRequest::values, by which every invocation of a workgroup reaches the end; none
/// where nothing is asked for.
class ValuesText {
 public:
  explicit ValuesText(const KernelRequest& request);

  explicit operator bool() const { return sum_.has_value(); }
  /// In front of the first instance.
  void begin(Shader& shader) const;
  /// A loop over the rows of the dispatch in strides of the grid.
  void open_loop(std::string_view variable, Shader& shader) const;
  /// Takes the outputs from `first` on, of the instance that `row` counts.
  void add(const Written& written, std::size_t first, std::string_view row, Shader& shader) const;
  /// Behind the last instance, where all invocations meet.
  void end(Shader& shader) const;
  /// Bytes written for an instance.
  std::uint32_t bytes() const;

 private:
  const KernelRequest& request_;
  Precision sums_;
  std::optional<Summation> sum_;
};

}  // namespace topograd::codegen
