// Preconditioners of a device's damped steps beyond the inverses of diagonal blocks.
#pragma once

#include "../../linear/choices.hpp"
#include "../linear/conjugate_gradients.hpp"
#include "../linear/normal_products.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace topograd::runtime::vulkan {

class DevicePreconditioner : public Correction, protected Part {
 public:
  using Point = std::function<std::vector<double>()>;
  using Lists = std::vector<const Recorded*>;

  explicit DevicePreconditioner(const Part& part) : Part(part) {}

  /// Marks the start of another solve.
  virtual void begin_solve() {}
  /// Called after terms, instances or fixed flags have changed.
  virtual void model_changed() {}
  /// As DampedSteps::transfer().
  virtual void transfer(ir::StateRecord& /*record*/) {}
  /// Brings it up to date before a step, where that is due; queues what makes it.
  ///
  ///   x  gives the current point, in the device's order
  virtual void prepare(const Point& x, Lists& lists) = 0;
  /// True if it corrects; only then its functions as a Correction are called.
  virtual bool in_use() const = 0;
  /// Reports the iterations so far of a running solve; the model may not change before settle().
  virtual void expect(int /*iterations*/) {}
  virtual void settle() {}
  /// Called after conjugate gradients. Returns true if prepare() may bring it into use, and the
  /// same system is then to be solved again.
  virtual bool solved(int /*iterations*/) { return false; }
  /// sums() at most.
  virtual std::uint32_t most_sums() const = 0;
  /// Use since begin_solve().
  virtual PreconditionerUse use() const = 0;

  /// Its buffers: what is recorded with them is derived from them.
  Source& buffers() { return buffers_; }

 protected:
  Source buffers_{recorder_.kernels};
};

/// Makes the preconditioner: make_device_NAME(part, products, asked) of its row in
/// preconditioners.def. `part` and `products` outlive it. Throws Error{Unsupported} if it exists on
/// the CPU alone.
std::unique_ptr<DevicePreconditioner> make_device_preconditioner(const Part& part,
                                                                 NormalProducts& products,
                                                                 Preconditioner asked);

}  // namespace topograd::runtime::vulkan
