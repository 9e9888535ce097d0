// Training steps of one network on several devices, each with a part of the batch.
#pragma once

#include "../backend/device.hpp"
#include "layers.hpp"

#include <functional>
#include <vector>

namespace topograd::ops::nn {

/// A network with a copy on each of several devices. Steps are those of one device up to rounding:
///
///   nn::DataParallel parallel([] { return nn::Sequential{nn::Dense(64, 10)}; }, devices);
///   nn::Adam adam(parallel.parameters());
///   adam.zero_grad();
///   const Tensor loss = parallel.backward(x, y, loss_of_rows);
///   adam.step();
///
/// A handle: copies share the networks.
class DataParallel {
 public:
  /// Mean over the rows of a batch: loss(outputs, targets).
  using Loss = std::function<Tensor(const Tensor& outputs, const Tensor& targets)>;

  ///   make     returns the network; called once for each device. All copies get the initial
  ///            parameters of the first.
  ///   devices  may be named twice; the first one has parameters(), on which optimisers work
  ///
  /// Throws Error{InvalidArgument} without a device, Error{Shape} if the networks have other
  /// parameters.
  DataParallel(const std::function<Layer()>& make, std::vector<Device> devices);

  /// The network of the first device.
  const Layer& network() const { return networks_.front(); }
  const std::vector<Tensor>& parameters() const { return network().parameters(); }
  const std::vector<Device>& devices() const { return devices_; }

  /// Adds the derivatives of a batch's loss to those of parameters(), and returns the loss.
  ///
  /// The rows of both tensors (their first axis) are divided evenly. Each device gets the present
  /// parameters, computes the loss of its rows and the derivatives; these are summed on the first
  /// device, weighted by the numbers of rows.
  ///
  /// Throws Error{Shape} if the numbers of rows differ or are 0.
  Tensor backward(const Tensor& inputs, const Tensor& targets, const Loss& loss) const;

 private:
  std::vector<Device> devices_;
  std::vector<Layer> networks_;  // by device
};

}  // namespace topograd::ops::nn
