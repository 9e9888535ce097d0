// Numbers that all instances of a term share, which its kernels may have in their text.
#pragma once

#include "../../../codegen/kernel.hpp"
#include "../../../ir/batch/batch.hpp"
#include "../recording/context.hpp"

namespace topograd::runtime::vulkan {

class NumbersInCode {
 public:
  /// Batch outlives this.
  explicit NumbersInCode(const ir::Batch& batch) : batch_(batch) {}

  /// Looks for numbers that may be code: normal ones, which no rule of a compiler takes for what
  /// they are not. True if there are some. Cost: a pass over such columns at most.
  bool find(const Context& context);
  /// The found numbers are still what all instances share.
  bool hold() const;
  const SharedNumbers& found() const { return found_; }
  /// The layout without the columns of these numbers.
  codegen::ColumnLayout left_out_of(codegen::ColumnLayout layout) const;

 private:
  const ir::Batch& batch_;
  SharedNumbers found_;
};

}  // namespace topograd::runtime::vulkan
