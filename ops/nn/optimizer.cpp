// Optimisers: steps of parameters against their derivatives, one kernel a parameter.
#include <topograd/ops/nn/optimizer.hpp>

#include <topograd/ir/error.hpp>
#include <topograd/ops/tensor/autograd.hpp>
#include <topograd/ops/tensor/state.hpp>

#include <cmath>

namespace topograd::ops::nn {

Optimizer::Optimizer(std::vector<Tensor> parameters)
    : parameters_(std::move(parameters)), memory_(parameters_.size()) {
  for (const Tensor& x : parameters_) {
    if (!x || !x.has_grad()) {
      throw Error(ErrorCode::InvalidArgument, "optimizer: expected parameters that require_grad()");
    }
  }
}

void Optimizer::step() {
  const NoGrad guard;
  ++steps_;
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    const Tensor& x = parameters_[k];
    std::vector<Tensor> made = {next(x.detach(), x.grad(), memory_[k])};
    made.insert(made.end(), memory_[k].begin(), memory_[k].end());
    detail::evaluate_together(made);
    x.assign(made[0]);
  }
}

void Optimizer::zero_grad() const {
  for (const Tensor& x : parameters_) x.zero_grad();
}

Sgd::Sgd(std::vector<Tensor> parameters, SgdOptions sgd_options)
    : Optimizer(std::move(parameters)), options(sgd_options) {}

Tensor Sgd::next(const Tensor& x, const Tensor& g, std::vector<Tensor>& memory) {
  const Tensor slope = options.weight_decay != 0 ? g + x * options.weight_decay : g;
  if (options.momentum == 0) return x - slope * options.rate;
  memory.resize(1);
  memory[0] = memory[0] ? memory[0] * options.momentum + slope : slope + 0.0;
  return x - memory[0] * options.rate;
}

Adam::Adam(std::vector<Tensor> parameters, AdamOptions adam_options)
    : Optimizer(std::move(parameters)), options(adam_options) {}

Tensor Adam::next(const Tensor& x, const Tensor& g, std::vector<Tensor>& memory) {
  const AdamOptions& o = options;
  const bool coupled = o.weight_decay != 0 && !o.decoupled;
  const Tensor slope = coupled ? g + x * o.weight_decay : g;
  if (memory.empty()) memory = {x * 0.0, x * 0.0};
  const double t = static_cast<double>(steps());
  memory[0] = memory[0] * o.beta1 + slope * (1 - o.beta1);
  memory[1] = memory[1] * o.beta2 + square(slope) * (1 - o.beta2);
  const double rate = o.rate / (1 - std::pow(o.beta1, t));
  const double root = 1 / std::sqrt(1 - std::pow(o.beta2, t));
  const Tensor step = memory[0] * rate / (sqrt(memory[1]) * root + o.epsilon);
  if (o.weight_decay != 0 && o.decoupled) return x * (1 - o.rate * o.weight_decay) - step;
  return x - step;
}

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& o)
    : Adam(std::move(parameters), {.rate = o.rate,
                                   .beta1 = o.beta1,
                                   .beta2 = o.beta2,
                                   .epsilon = o.epsilon,
                                   .weight_decay = o.weight_decay,
                                   .decoupled = true}) {}

}  // namespace topograd::ops::nn
