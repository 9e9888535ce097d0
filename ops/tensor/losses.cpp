// Losses: means over all entries, fused from tensors that broadcast.
#include <topograd/ops/tensor/losses.hpp>

#include <topograd/ir/error.hpp>
#include <topograd/ops/tensor/reduce.hpp>
#include <topograd/ops/tensor/softmax.hpp>
#include <topograd/ops/tensor/state.hpp>

namespace topograd::ops {
namespace {

void check_positive(const char* call, const char* what, double number) {
  if (!(number > 0)) {
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": expected " + what + " > 0, got " + std::to_string(number));
  }
}

}  // namespace

Tensor mse_loss(const Tensor& a, const Tensor& b) { return mean(square(a - b)); }
Tensor mae_loss(const Tensor& a, const Tensor& b) { return mean(abs(a - b)); }

Tensor huber_loss(const Tensor& a, const Tensor& b, double delta) {
  check_positive("huber_loss", "delta", delta);
  return mean(map(
      [](const Value& x, const Value& y, const Value& d) {
        const Value e = topograd::abs(x - y);
        return select(e <= d, literal(0.5) * e * e, d * (e - literal(0.5) * d));
      },
      a, b, Tensor(delta)));
}

Tensor tukey_loss(const Tensor& a, const Tensor& b, double c) {
  check_positive("tukey_loss", "c", c);
  return mean(map(
      [](const Value& x, const Value& y, const Value& bound) {
        const Value ratio = (x - y) / bound;
        const Value inside = literal(1.0) - ratio * ratio;
        const Value most = bound * bound / literal(6.0);
        return select(inside >= literal(0.0), most * (literal(1.0) - cube(inside)), most);
      },
      a, b, Tensor(c)));
}

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets) {
  return mean(map([](const Value& x, const Value& y) { return topograd::softplus(x) - y * x; },
                  logits, targets));
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  if (logits.rank() != 2 ||
      (targets.shape() != logits.shape() && targets.shape() != Shape{logits.size(0)})) {
    throw Error(ErrorCode::Shape,
                "cross_entropy: expected logits (n, classes) and targets (n) or "
                "(n, classes), got " +
                    to_text(logits.shape()) + " and " + to_text(targets.shape()));
  }
  const Tensor logs = log_softmax(logits);
  const double rows = static_cast<double>(std::max<std::int64_t>(logits.size(0), 1));
  if (targets.rank() == 2) return sum(logs * targets) * (-1 / rows);
  Tensor classes = arange(logits.size(1), logs.type());
  if (const auto device = logits.placed()) classes = classes.to(*device);
  const Tensor chosen =
      map([](const Value& log, const Value& target,
             const Value& number) { return select(target == number, log, literal(0.0)); },
          logs, targets.reshape({-1, 1}), classes);
  return sum(chosen) * (-1 / rows);
}

}  // namespace topograd::ops
