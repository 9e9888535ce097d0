// Layers of networks, and their composition.
#pragma once

#include "../tensor/operations.hpp"
#include "../tensor/tensor.hpp"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace topograd::ops::nn {

// Activations and losses of tensors, which are also functions for layers and networks.
using ops::binary_cross_entropy;
using ops::cross_entropy;
using ops::elu;
using ops::gelu;
using ops::huber_loss;
using ops::leaky_relu;
using ops::log_softmax;
using ops::mae_loss;
using ops::mse_loss;
using ops::relu;
using ops::sigmoid;
using ops::silu;
using ops::softmax;
using ops::softplus;
using ops::tanh;
using ops::tukey_loss;

class Layer;

template <class F>
concept TensorFunction =
    std::is_invocable_r_v<Tensor, F, const Tensor&> && !std::is_base_of_v<Layer, F>;

/// A function of tensors with its own parameters. A handle: copies share the parameters.
class Layer {
 public:
  /// A function without parameters: relu, tanh, softmax.
  template <TensorFunction F>
  Layer(F f)  // NOLINT: functions are layers
      : f_(std::move(f)) {}
  Layer(Tensor (*f)(const Tensor&)) : f_(f) {}  // the overload for tensors

  Tensor operator()(const Tensor& x) const { return f_(x); }
  const std::vector<Tensor>& parameters() const { return parameters_; }
  /// Moves the parameters to a device; they stay the same tensors.
  const Layer& to(const Device& device) const;

 protected:
  Layer(std::function<Tensor(const Tensor&)> f, std::vector<Tensor> parameters);

 private:
  std::function<Tensor(const Tensor&)> f_;
  std::vector<Tensor> parameters_;
};

/// x W + b.
///
///   x  (..., inputs)    W  (inputs, outputs)    b  (outputs)
///
/// W is uniform in ±√(6 / inputs) (He et al. 2015, eq. 14 for the uniform law), b is 0. Throws
/// Error{InvalidArgument} for sizes < 1; calls throw Error{Shape} "dense: expected inputs (..., 3),
/// got (2, 4)".
class Dense : public Layer {
 public:
  Dense(std::int64_t inputs, std::int64_t outputs, std::uint64_t seed, Type type = Type::f32);
  /// Uses the seeds 1, 2, ... in the order of construction on this thread.
  Dense(std::int64_t inputs, std::int64_t outputs);
  const Tensor& weights() const { return parameters()[0]; }
  const Tensor& bias() const { return parameters()[1]; }

 private:
  explicit Dense(std::vector<Tensor> parameters);
};

/// Layers applied one after the other; without layers it returns its input.
///
/// Copies share the parameters, but not the list: a layer that is added to this network is not
/// added to its copies or to networks that contain it.
class Sequential : public Layer {
 public:
  Sequential();
  Sequential(std::initializer_list<Layer> layers);
  explicit Sequential(std::vector<Layer> layers);

  /// Appends a layer, whose parameters come last in parameters(); existing optimisers ignore them.
  /// Returns this. Cost: a copy of the list.
  Sequential& add(Layer layer);
  const std::vector<Layer>& layers() const { return *layers_; }

 private:
  explicit Sequential(std::shared_ptr<const std::vector<Layer>> layers);

  std::shared_ptr<const std::vector<Layer>> layers_;
};

}  // namespace topograd::ops::nn
