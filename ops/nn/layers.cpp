// Layers of networks, and their composition.
#include "layers.hpp"

#include "../../ir/error.hpp"
#include "../tensor/operations.hpp"
#include "../tensor/state.hpp"

#include <cmath>
#include <memory>
#include <string>
#include <utility>

namespace topograd::ops::nn {
namespace {

thread_local std::uint64_t next_seed = 1;

std::vector<Tensor> dense_parameters(std::int64_t inputs, std::int64_t outputs, std::uint64_t seed,
                                     Type type) {
  if (inputs < 1 || outputs < 1) {
    throw Error(ErrorCode::InvalidArgument, "dense: expected inputs >= 1 and outputs >= 1, got " +
                                                std::to_string(inputs) + " and " +
                                                std::to_string(outputs));
  }
  const double bound = std::sqrt(6.0 / static_cast<double>(inputs));
  Tensor weights = rand({inputs, outputs}, seed, type) * (2 * bound) - bound;
  Tensor bias = zeros({outputs}, type);
  return {weights.requires_grad(), bias.requires_grad()};
}

std::vector<Tensor> all_parameters(const std::vector<Layer>& layers) {
  std::vector<Tensor> out;
  for (const Layer& layer : layers)
    out.insert(out.end(), layer.parameters().begin(), layer.parameters().end());
  return out;
}

}  // namespace

Layer::Layer(std::function<Tensor(const Tensor&)> f, std::vector<Tensor> parameters)
    : f_(std::move(f)), parameters_(std::move(parameters)) {}

const Layer& Layer::to(const Device& device) const {
  for (const Tensor& parameter : parameters_) {
    parameter.detach().to(device);  // throws if the device does not support its type
    parameter.state()->device = device;
  }
  return *this;
}

Dense::Dense(std::vector<Tensor> p)
    : Layer(
          [weights = p[0], bias = p[1]](const Tensor& x) {
            const Shape& shape = detail::state_of("dense", x).shape;
            if (shape.empty() || shape.back() != weights.size(0)) {
              throw Error(ErrorCode::Shape, "dense: expected inputs (..., " +
                                                std::to_string(weights.size(0)) + "), got " +
                                                to_text(shape));
            }
            if (shape.size() > 1) return matmul(x, weights) + bias;
            return matmul(x.reshape({1, -1}), weights).reshape({-1}) + bias;
          },
          p) {}

Dense::Dense(std::int64_t inputs, std::int64_t outputs, std::uint64_t seed, Type type)
    : Dense(dense_parameters(inputs, outputs, seed, type)) {}

Dense::Dense(std::int64_t inputs, std::int64_t outputs) : Dense(inputs, outputs, next_seed++) {}

Sequential::Sequential(std::shared_ptr<const std::vector<Layer>> layers)
    : Layer(
          [layers](const Tensor& x) {
            Tensor y = x;
            for (const Layer& layer : *layers) y = layer(y);
            return y;
          },
          all_parameters(*layers)),
      layers_(std::move(layers)) {}

Sequential::Sequential(std::vector<Layer> layers)
    : Sequential(std::make_shared<const std::vector<Layer>>(std::move(layers))) {}

Sequential::Sequential() : Sequential(std::vector<Layer>()) {}

Sequential::Sequential(std::initializer_list<Layer> layers)
    : Sequential(std::vector<Layer>(layers)) {}

Sequential& Sequential::add(Layer layer) {
  std::vector<Layer> layers = *layers_;
  layers.push_back(std::move(layer));
  return *this = Sequential(std::move(layers));
}

}  // namespace topograd::ops::nn
