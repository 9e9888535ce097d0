// A model in the order of its device, and numbers between that order and the caller's.
#pragma once

#include "../../model/model.hpp"
#include "../../order/order.hpp"
#include "../recording/vector_ops.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

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

}  // namespace topograd::runtime::vulkan
