// Optimisers: steps of parameters against their derivatives, one kernel a parameter.
#pragma once

#include "../../ir/program.hpp"
#include "../tensor/tensor.hpp"

#include <cstdint>
#include <vector>

namespace topograd::ops::nn {

/// Takes steps of tensors that require_grad(). Those of f16 are computed, and what is remembered of
/// them is kept, in f32.
class Optimizer {
 public:
  explicit Optimizer(std::vector<Tensor> parameters);
  virtual ~Optimizer() = default;

  /// A step along what backward() has added up. Nothing is waited for.
  void step();
  /// The same by options: on their device, or it throws; and how all of it ran (with_options()).
  void step(const OpOptions& options);
  /// Sets the derivatives of all parameters to 0.
  void zero_grad() const;
  const std::vector<Tensor>& parameters() const { return parameters_; }

 protected:
  /// One step of one parameter, element by element.
  struct Rule {
    /// Of x, its derivative, and what is remembered of it: the new x, and what is remembered then,
    /// which is 0 before the first step.
    const ir::Program* program = nullptr;
    std::vector<double> numbers;  ///< by uniform slot
  };
  virtual Rule rule() const = 0;
  /// Throws Error{InvalidArgument} for options out of range, before a step changes anything.
  virtual void check() const {}
  std::uint64_t steps() const { return steps_; }

 private:
  std::vector<Tensor> parameters_;
  std::vector<std::vector<Tensor>> memory_;  // by parameter
  std::uint64_t steps_ = 0;                  // the present one included
};

// Options may change between steps; constructors and steps throw Error{InvalidArgument} "adam:
// expected 0 <= beta1 < 1, got 1.5" for those out of range. All are finite.

struct SgdOptions {
  double rate = 0.01;       ///< >= 0
  double momentum = 0;      ///< >= 0
  double weight_decay = 0;  ///< >= 0; times the parameter, added to its derivative
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
  bool decoupled = false;  ///< the decay acts on the parameter, not through its derivative
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
  double weight_decay = 0.01;         ///< >= 0; acts on the parameter, not through its derivative
};

/// Adam with decoupled weight decay.
class AdamW final : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});

 private:
  void check() const override;
};

}  // namespace topograd::ops::nn
