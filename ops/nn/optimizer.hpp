// Optimisers: update parameters by their derivatives, with one kernel per parameter.
#pragma once

#include "../../ir/program.hpp"
#include "../tensor/tensor.hpp"

#include <cstdint>
#include <vector>

namespace topograd::ops::nn {

/// Updates tensors with requires_grad(). For f16 parameters, the computation and its state use f32.
class Optimizer {
 public:
  explicit Optimizer(std::vector<Tensor> parameters);
  virtual ~Optimizer() = default;

  /// A step with the derivatives that backward() has accumulated. Does not wait.
  void step();
  /// The same on the device of the options, or it throws; with statistics (with_options()).
  void step(const OpOptions& options);
  /// Sets the derivatives of all parameters to 0.
  void zero_grad() const;
  const std::vector<Tensor>& parameters() const { return parameters_; }

 protected:
  /// One step of a parameter, element by element.
  struct Rule {
    /// Inputs: x, its derivative, and its state, which is 0 before the first step. Outputs: the new
    /// x and the new state.
    const ir::Program* program = nullptr;
    std::vector<double> numbers;  ///< for each uniform slot
  };
  virtual Rule rule() const = 0;
  /// Throws Error{InvalidArgument} for options out of range, before a step changes anything.
  virtual void check() const {}
  std::uint64_t steps() const { return steps_; }

 private:
  std::vector<Tensor> parameters_;
  std::vector<std::vector<Tensor>> memory_;  // for each parameter
  std::uint64_t steps_ = 0;                  // including the present one
};

// Options may change between steps. Constructors and steps throw Error{InvalidArgument} "adam:
// expected 0 <= beta1 < 1, got 1.5" for options out of range. All must be finite.

struct SgdOptions {
  double rate = 0.01;       ///< >= 0
  double momentum = 0;      ///< >= 0
  double weight_decay = 0;  ///< >= 0; multiplied by the parameter and added to its derivative
};

/// x -= rate v, v = momentum v + g.
class Sgd final : public Optimizer {
 public:
  explicit Sgd(std::vector<Tensor> parameters, SgdOptions options = {});
  SgdOptions options;

 private:
  Rule rule() const override;
  void check() const override;
};

struct AdamOptions {
  double rate = 0.001;                ///< >= 0
  double beta1 = 0.9, beta2 = 0.999;  ///< in [0, 1)
  double epsilon = 1e-8;              ///< >= 0
  double weight_decay = 0;            ///< >= 0
  bool decoupled = false;  ///< applies the decay to the parameter instead of the derivative
};

/// Source: Kingma & Ba, Adam (2015), algorithm 1; decoupled: Loshchilov & Hutter (2019).
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, AdamOptions options = {});
  AdamOptions options;

 private:
  Rule rule() const override;
  void check() const override;
};

struct AdamWOptions {
  double rate = 0.001;                ///< >= 0
  double beta1 = 0.9, beta2 = 0.999;  ///< in [0, 1)
  double epsilon = 1e-8;              ///< >= 0
  double weight_decay = 0.01;         ///< >= 0; applied to the parameter instead of the derivative
};

/// Adam with decoupled weight decay.
class AdamW final : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});

 private:
  void check() const override;
};

}  // namespace topograd::ops::nn
