// A model on its device: its order there, the data of all its terms, and their cost.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../../model/model.hpp"
#include "../../order/order.hpp"
#include "../recording/recorder.hpp"
#include "../recording/vector_ops.hpp"
#include "device_term.hpp"

namespace topograd::runtime::vulkan {

/// How a model differs from the one before.
struct ModelChange {
  bool structure = false;  ///< terms, instances, what is fixed, or whether there are bounds
  bool unknowns = false;   ///< the scalars of x are others
  bool uniforms = false, bounds = false;  ///< their numbers
};

class DeviceModel {
 public:
  /// arrange() must follow before anything else. Context outlives this.
  DeviceModel(Context& context, const Model& source) : context_(context), source_(source) {}

  /// Finds the order of a model whose structure is new.
  void arrange();
  /// Takes another state of the same problem; arrange() follows where the structure has changed.
  ModelChange follow(const Model& next);
  /// True if columns of a term have changed since the last call.
  bool data_changed(std::size_t term);
  /// The same for columns that lie on the host.
  bool own_data_changed(std::size_t term);
  /// Brings them into the order of the device, those that lie on the host only if `own`.
  void reorder_data(std::size_t term, bool own);

  const Model& source() const { return source_; }  ///< as the caller knows it
  const Model& model() const { return model_; }    ///< in the order of the device
  const ModelOrder& order() const { return order_; }
  /// The caller's number of an instance.
  std::size_t row(std::size_t term, std::size_t i) const {
    return order_.identity() ? i : order_.rows[term][i];
  }

  // Vectors of scalars, in the caller's order on the host.
  void write(const Buffer& buffer, std::span<const double> values) const;
  void read(const Buffer& buffer, std::span<double> values) const;
  /// Reads the copy of `source` that the submission `after` made.
  void read(const Readback& readback, const Submission& after, const Buffer& source,
            std::span<double> values) const;
  void undo(std::span<const double> ordered, std::span<double> values) const;
  /// The same for points: what f32 has rounded out of the box comes back.
  void read_point(const Buffer& buffer, std::span<double> x) const;
  /// A point in host memory.
  void read_staged(const Buffer& staged, std::span<double> x) const;

  /// Bytes on the host.
  std::uint64_t order_bytes() const;
  std::uint64_t column_bytes() const;

 private:
  void keep_in_box(std::span<double> x) const;
  std::vector<double> ordered(std::span<const double> values) const;

  Context& context_;
  Model source_, model_;
  ModelOrder order_;
  std::vector<std::unique_ptr<ir::Batch>> batches_;  // batches of model_, if its order differs
  struct Seen {
    std::uint64_t structure = 0, data = 0, own_data = 0;  // versions
    bool resident = false;  // some columns lie elsewhere than on the host
  };
  std::vector<Seen> seen_;  // by term
};

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
