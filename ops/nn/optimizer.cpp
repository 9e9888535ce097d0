// Optimisers: update parameters by their derivatives, with one kernel per parameter.
#include "optimizer.hpp"

#include "../../ir/error.hpp"
#include "../../ir/text.hpp"
#include "../tensor/autograd.hpp"
#include "../tensor/fused_run.hpp"
#include "../tensor/state.hpp"
#include "../tensor/with_options.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>

namespace topograd::ops::nn {
namespace {

using Values = std::span<const Value>;
using Results = std::vector<Value>;

/// Throws unless 0 <= number < end.
void check_range(const char* call, const char* what, double number,
                 double end = std::numeric_limits<double>::infinity()) {
  if (number >= 0 && number < end) return;
  const bool open = end == std::numeric_limits<double>::infinity();
  throw Error(ErrorCode::InvalidArgument,
              std::string(call) + ": expected " +
                  (open ? "a finite " + std::string(what) + " >= 0"
                        : "0 <= " + std::string(what) + " < " + ir::print_number(end)) +
                  ", got " + ir::print_number(number));
}

void check_adam(const char* call, const AdamOptions& o) {
  check_range(call, "rate", o.rate);
  check_range(call, "beta1", o.beta1, 1);
  check_range(call, "beta2", o.beta2, 1);
  check_range(call, "epsilon", o.epsilon);
  check_range(call, "weight_decay", o.weight_decay);
}

AdamOptions checked(const AdamWOptions& o) {
  const AdamOptions options{.rate = o.rate,
                            .beta1 = o.beta1,
                            .beta2 = o.beta2,
                            .epsilon = o.epsilon,
                            .weight_decay = o.weight_decay,
                            .decoupled = true};
  check_adam("adamw", options);
  return options;
}

}  // namespace

Optimizer::Optimizer(std::vector<Tensor> parameters)
    : parameters_(std::move(parameters)), memory_(parameters_.size()) {
  for (const Tensor& x : parameters_) {
    if (!x || !x.has_grad()) {
      throw Error(ErrorCode::InvalidArgument, "optimizer: expected parameters that require_grad()");
    }
  }
}

void Optimizer::step() {
  check();
  const NoGrad guard;
  ++steps_;
  const Rule step = rule();
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    const Tensor& x = parameters_[k];
    std::vector<Tensor> operands = {x.detach(), x.grad()};
    for (std::size_t m = 1; m < step.program->outputs.size(); ++m) {
      if (memory_[k].size() < m) memory_[k].push_back(detail::full_like(operands[0], 0));
      operands.push_back(memory_[k][m - 1]);
    }
    std::vector<Tensor> made =
        detail::compute_together("step", *step.program, operands, step.numbers);
    x.assign(made[0].to(x.type()));  // rounds to f16 if needed
    memory_[k].assign(made.begin() + 1, made.end());
  }
}

void Optimizer::step(const OpOptions& options) {
  with_options(options, [this] { step(); });
}

void Optimizer::zero_grad() const {
  for (const Tensor& x : parameters_) x.zero_grad();
}

Sgd::Sgd(std::vector<Tensor> parameters, SgdOptions sgd_options)
    : Optimizer(std::move(parameters)), options(sgd_options) {
  Sgd::check();
}

void Sgd::check() const {
  check_range("sgd", "rate", options.rate);
  check_range("sgd", "momentum", options.momentum);
  check_range("sgd", "weight_decay", options.weight_decay);
}

Optimizer::Rule Sgd::rule() const {
  static const ir::Program& plain =
      *new ir::Program(detail::program_of(2, 2, [](Values v) -> Results {
        const Value &x = v[0], &g = v[1], &rate = v[2], &decay = v[3];
        return {x - (g + x * decay) * rate};
      }));
  static const ir::Program& with_momentum =
      *new ir::Program(detail::program_of(3, 3, [](Values v) -> Results {
        const Value &x = v[0], &g = v[1], &before = v[2];
        const Value &rate = v[3], &decay = v[4], &momentum = v[5];
        const Value velocity = before * momentum + (g + x * decay);
        return {x - velocity * rate, velocity};
      }));
  if (options.momentum == 0) return {&plain, {options.rate, options.weight_decay}};
  return {&with_momentum, {options.rate, options.weight_decay, options.momentum}};
}

Adam::Adam(std::vector<Tensor> parameters, AdamOptions adam_options)
    : Optimizer(std::move(parameters)), options(adam_options) {
  Adam::check();
}

void Adam::check() const { check_adam("adam", options); }

Optimizer::Rule Adam::rule() const {
  // x, g, mean and mean square; then beta1, 1 - beta1, beta2, 1 - beta2, rate, root, epsilon.
  const auto step = [](Values v, const Value& slope) {
    const Value mean = v[2] * v[4] + slope * v[5];
    const Value squares = v[3] * v[6] + square(slope) * v[7];
    return std::array{mean * v[8] / (sqrt(squares) * v[9] + v[10]), mean, squares};
  };
  static const ir::Program& plain =
      *new ir::Program(detail::program_of(4, 7, [step](Values v) -> Results {
        const auto [move, mean, squares] = step(v, v[1]);
        return {v[0] - move, mean, squares};
      }));
  static const ir::Program& coupled =
      *new ir::Program(detail::program_of(4, 8, [step](Values v) -> Results {
        const auto [move, mean, squares] = step(v, v[1] + v[0] * v[11]);
        return {v[0] - move, mean, squares};
      }));
  static const ir::Program& decoupled =
      *new ir::Program(detail::program_of(4, 8, [step](Values v) -> Results {
        const auto [move, mean, squares] = step(v, v[1]);
        return {v[0] * v[11] - move, mean, squares};
      }));
  const AdamOptions& o = options;
  const double t = static_cast<double>(steps());
  const double rate = o.rate / (1 - std::pow(o.beta1, t));
  const double root = 1 / std::sqrt(1 - std::pow(o.beta2, t));
  Rule rule{&plain, {o.beta1, 1 - o.beta1, o.beta2, 1 - o.beta2, rate, root, o.epsilon}};
  if (o.weight_decay == 0) return rule;
  rule.program = o.decoupled ? &decoupled : &coupled;
  rule.numbers.push_back(o.decoupled ? 1 - o.rate * o.weight_decay : o.weight_decay);
  return rule;
}

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& o)
    : Adam(std::move(parameters), checked(o)) {}

void AdamW::check() const { check_adam("adamw", options); }

}  // namespace topograd::ops::nn
