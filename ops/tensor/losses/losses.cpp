// Losses: means over all entries, fused with expressions of tensors that broadcast.
#include "../operations.hpp"

#include "../../../ir/error.hpp"
#include "../fused_run.hpp"
#include "../state.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

namespace topograd::ops {
namespace {

void check_positive(const char* call, const char* what, double number) {
  if (!(number > 0)) {
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": expected " + what + " > 0, got " + std::to_string(number));
  }
}

// Errors name the loss, not its parts.

void check_alike(const char* call, const Tensor& a, const Tensor& b) {
  const Tensor both[] = {a, b};
  detail::common_type(call, both);
  detail::common_device(call, both);
}

void check_pair(const char* call, const Tensor& a, const Tensor& b) {
  check_alike(call, a, b);
  broadcast(call, a.shape(), b.shape());
}

using Values = std::span<const Value>;

Tensor mean_of(const char* call, const ir::Program& program, const Tensor& a, const Tensor& b,
               std::span<const double> numbers = {}) {
  const Tensor both[] = {a, b};
  return mean(detail::compose(call, program, both, numbers));
}

/// 0, 1, ... along the last axis of `logs`, on its device: made once per device, type and number of
/// classes, if there are not too many.
Tensor class_numbers(const Tensor& logs) {
  constexpr std::size_t kMost = 16;
  struct Known {
    std::optional<Device> device;
    Tensor numbers;
  };
  thread_local std::vector<Known> known;
  const std::optional<Device> device = logs.placed();
  const std::int64_t count = logs.size(-1);
  for (const Known& k : known) {
    if (k.device == device && k.numbers.type() == logs.type() && k.numbers.count() == count)
      return k.numbers;
  }
  Tensor numbers = arange(count, logs.type());
  if (device) numbers = numbers.to(*device);
  if (known.size() == kMost) known.clear();
  known.push_back({device, numbers});
  return numbers;
}

}  // namespace

Tensor mse_loss(const Tensor& a, const Tensor& b) {
  check_pair("mse_loss", a, b);
  return mean(square(a - b));
}
Tensor mae_loss(const Tensor& a, const Tensor& b) {
  check_pair("mae_loss", a, b);
  return mean(abs(a - b));
}

Tensor huber_loss(const Tensor& a, const Tensor& b, double delta) {
  check_positive("huber_loss", "delta", delta);
  static const ir::Program& huber =
      *new ir::Program(detail::program_of(2, 1, [](Values v) -> std::vector<Value> {
        const Value e = topograd::abs(v[0] - v[1]), &d = v[2];
        return {select(e <= d, literal(0.5) * e * e, d * (e - literal(0.5) * d))};
      }));
  return mean_of("huber_loss", huber, a, b, {&delta, 1});
}

Tensor tukey_loss(const Tensor& a, const Tensor& b, double c) {
  check_positive("tukey_loss", "c", c);
  static const ir::Program& tukey =
      *new ir::Program(detail::program_of(2, 1, [](Values v) -> std::vector<Value> {
        const Value ratio = (v[0] - v[1]) / v[2];
        const Value inside = literal(1.0) - ratio * ratio;
        const Value most = v[2] * v[2] / literal(6.0);
        return {select(inside >= literal(0.0), most * (literal(1.0) - cube(inside)), most)};
      }));
  return mean_of("tukey_loss", tukey, a, b, {&c, 1});
}

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets) {
  static const ir::Program& entropy =
      *new ir::Program(detail::program_of(2, 0, [](Values v) -> std::vector<Value> {
        // log(1 + e^-|x|) plus |x| times the target's distance: no difference of large numbers.
        const Value &x = v[0], &y = v[1];
        const Bool positive = x >= literal(0.0);
        const Value size = select(positive, x, -x);
        return {topograd::softplus(-size) + size * select(positive, literal(1.0) - y, y)};
      }));
  return mean_of("binary_cross_entropy", entropy, logits, targets);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  check_alike("cross_entropy", logits, targets);
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
  static const ir::Program& chosen =
      *new ir::Program(detail::program_of(3, 0, [](Values v) -> std::vector<Value> {
        return {select(v[1] == v[2], v[0], literal(0.0))};
      }));
  const Tensor operands[] = {logs, targets.reshape({-1, 1}), class_numbers(logs)};
  return sum(detail::compose("cross_entropy", chosen, operands, {})) * (-1 / rows);
}

}  // namespace topograd::ops
