// All terms of a model on its device, and their cost.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../recording/recorder.hpp"
#include "../recording/step_vectors.hpp"
#include "device_model.hpp"
#include "device_term.hpp"

namespace topograd::runtime::vulkan {

/// A term without instances is null.
class DeviceTerms {
 public:
  using All = std::vector<std::unique_ptr<DeviceTerm>>;

  /// All of these outlive it.
  DeviceTerms(Context& context, const DeviceModel& problem, const StepVectors& vectors)
      : context_(context), problem_(problem), v_(vectors) {}

  /// Makes the terms of a model that has just been arranged.
  void build();

  const All& all() const { return all_; }
  All::const_iterator begin() const { return all_.begin(); }
  All::const_iterator end() const { return all_.end(); }
  std::size_t size() const { return all_.size(); }
  const std::unique_ptr<DeviceTerm>& operator[](std::size_t k) const { return all_[k]; }
  const std::unique_ptr<DeviceTerm>& at(std::size_t k) const { return all_.at(k); }

  /// Term k has instances, and the pass is for its kind.
  bool takes_part(std::size_t k, Pass pass) const { return all_[k] && all_[k]->takes_part(pass); }
  Operands operands(const Buffer& x, const Buffer* direction = nullptr) const {
    return {.x = &x, .direction = direction, .uniforms = &uniforms_};
  }
  std::vector<std::vector<SlotGroup>> slot_groups() const;  ///< by term
  void write_uniforms();

  /// The cost at x, with the instances that fail a guard.
  void record_cost(CommandList& list, const Buffer& x, codegen::Scalar result);
  bool have_guards() const { return static_cast<bool>(failures_); }
  /// Ends with a barrier.
  void record_no_failures(CommandList& list) const;
  /// One u32; null without guards.
  const Buffer* failures() const { return have_guards() ? &failures_ : nullptr; }
  /// Instances that failed a guard in the last cost.
  std::uint64_t failed_guards() const;
  /// Partial sums of the cost that passes with values write, at most.
  std::uint64_t most_costs() const;

  /// Kernels and sets of a mask serve, or general ones.
  void use_mask(bool masked);
  bool masked() const { return masked_; }
  /// Arrays all of whose scalars are constant, under a mask.
  std::size_t fixed_arrays() const;

 private:
  Context& context_;
  const DeviceModel& problem_;
  const StepVectors& v_;
  All all_;
  Buffer uniforms_, cost_partials_;
  Buffer failures_;  // if a term has guards
  bool masked_ = false;
};

/// Parts inherit it, so that they name it as their own; all of it outlives them.
struct Part {
  Context& context_;
  Recorder& recorder_;
  const DeviceModel& problem_;
  StepVectors& v_;
  DeviceTerms& terms_;
};

}  // namespace topograd::runtime::vulkan
