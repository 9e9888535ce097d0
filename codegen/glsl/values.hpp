// Additional results of a kernel: a part of the cost, and rows.
#pragma once

#include "program.hpp"
#include "reduction.hpp"

#include <cstddef>
#include <optional>
#include <string_view>

namespace topograd::codegen {

/// Source for KernelRequest::values: every invocation of a workgroup reaches the end. May be empty.
class ValuesText {
 public:
  explicit ValuesText(const KernelRequest& request);

  explicit operator bool() const { return sum_.has_value(); }
  /// Before the first instance.
  void begin(Shader& shader) const;
  /// Opens a loop over the rows of the dispatch in strides of the grid.
  void open_loop(std::string_view variable, Shader& shader) const;
  /// Adds the outputs from `first` on of the instance in `row`.
  void add(const Written& written, std::size_t first, std::string_view row, Shader& shader) const;
  /// After the last instance, where all invocations meet.
  void end(Shader& shader) const;
  /// Bytes written per instance.
  std::uint32_t bytes() const;

 private:
  const KernelRequest& request_;
  Precision sums_;
  std::optional<Summation> sum_;
};

}  // namespace topograd::codegen
