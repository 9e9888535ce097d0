// The manifolds without trigonometry: Euclidean, subset, product, custom.
#include "../manifold.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "../traced_function.hpp"
#include "manifold_expression.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace topograd {
namespace {

void expect(bool ok, const std::string& what) {
  if (!ok) throw Error(ErrorCode::InvalidArgument, "manifold: " + what);
}

/// Numbers of which some stay fixed.
class Subset final : public ExpressedManifold {
 public:
  Subset(int size, const std::vector<int>& constant)
      : free_(static_cast<std::size_t>(size)), size_(size) {
    std::iota(free_.begin(), free_.end(), 0);
    std::erase_if(free_, [&](int k) { return std::ranges::find(constant, k) != constant.end(); });
  }

  int ambient_size() const override { return size_; }
  int tangent_size() const override { return static_cast<int>(free_.size()); }
  std::string name() const override { return tangent_size() == size_ ? "euclidean" : "subset"; }
  bool plus(const double* x, const double* delta, double* out) const override {
    std::copy(x, x + size_, out);
    for (std::size_t k = 0; k < free_.size(); ++k) out[free_[k]] += delta[k];
    return true;
  }
  bool plus_jacobian(const double*, double* jacobian) const override {
    std::fill(jacobian, jacobian + free_.size() * static_cast<std::size_t>(size_), 0.0);
    for (std::size_t k = 0; k < free_.size(); ++k)
      jacobian[static_cast<std::size_t>(free_[k]) * free_.size() + k] = 1;
    return true;
  }
  std::vector<Value> expression(std::span<const Value> x,
                                std::span<const Value> delta) const override {
    std::vector<Value> out(x.begin(), x.end());
    for (std::size_t k = 0; k < free_.size(); ++k) {
      const auto at = static_cast<std::size_t>(free_[k]);
      out[at] = out[at] + delta[k];
    }
    return out;
  }
  std::string key() const override {
    std::string text = "subset " + std::to_string(size_) + ":";
    for (const int k : free_) text += " " + std::to_string(k);
    return text;
  }
  bool minus(const double* y, const double* x, double* delta) const override {
    for (std::size_t k = 0; k < free_.size(); ++k) delta[k] = y[free_[k]] - x[free_[k]];
    return true;
  }
  bool minus_jacobian(const double*, double* jacobian) const override {
    const auto n = static_cast<std::size_t>(size_);
    std::fill(jacobian, jacobian + free_.size() * n, 0.0);
    for (std::size_t k = 0; k < free_.size(); ++k)
      jacobian[k * n + static_cast<std::size_t>(free_[k])] = 1;
    return true;
  }

 private:
  std::vector<int> free_;
  int size_;
};

/// The product of manifolds.
class Product final : public ExpressedManifold {
 public:
  explicit Product(std::vector<Manifold> parts) : parts_(std::move(parts)) {
    for (const Manifold& part : parts_) {
      ambient_ += part.ambient_size();
      tangent_ += part.tangent_size();
    }
  }

  int ambient_size() const override { return ambient_; }
  int tangent_size() const override { return tangent_; }
  std::string name() const override {
    std::string text = "product(";
    for (const Manifold& part : parts_) text += (text.back() == '(' ? "" : ", ") + part.name();
    return text + ")";
  }
  bool plus(const double* x, const double* delta, double* out) const override {
    return std::ranges::all_of(parts_, [&](const Manifold& part) {
      const bool ok = part.plus(x, delta, out);
      x += part.ambient_size();
      out += part.ambient_size();
      delta += part.tangent_size();
      return ok;
    });
  }
  bool plus_jacobian(const double* x, double* jacobian) const override {
    return diagonal(x, jacobian, tangent_, true);
  }
  std::vector<Value> expression(std::span<const Value> x,
                                std::span<const Value> delta) const override {
    std::vector<Value> out;
    for (const Manifold& part : parts_) {
      const auto n = static_cast<std::size_t>(part.ambient_size());
      const auto t = static_cast<std::size_t>(part.tangent_size());
      const std::vector<Value> moved = plus_expression(part, x.first(n), delta.first(t));
      if (moved.empty()) return {};
      out.insert(out.end(), moved.begin(), moved.end());
      x = x.subspan(n);
      delta = delta.subspan(t);
    }
    return out;
  }
  std::string refusal(const double* x) const override {
    for (const Manifold& part : parts_) {
      std::string text = part.refusal(x);
      if (!text.empty()) return "part " + part.name() + ": " + text;
      x += part.ambient_size();
    }
    return {};
  }
  void reduce(double* x) const override {
    for (const Manifold& part : parts_) {
      topograd::reduce(part, x);
      x += part.ambient_size();
    }
  }
  std::string key() const override {
    std::string text = "product(";
    for (const Manifold& part : parts_) {
      const auto* expressed = dynamic_cast<const ExpressedManifold*>(part.model().get());
      const std::string key = expressed == nullptr ? std::string() : expressed->key();
      if (key.empty()) return {};
      text += key + "; ";
    }
    return text + ")";
  }
  bool minus(const double* y, const double* x, double* delta) const override {
    return std::ranges::all_of(parts_, [&](const Manifold& part) {
      const bool ok = part.minus(y, x, delta);
      x += part.ambient_size();
      y += part.ambient_size();
      delta += part.tangent_size();
      return ok;
    });
  }
  bool minus_jacobian(const double* x, double* jacobian) const override {
    return diagonal(x, jacobian, ambient_, false);
  }

 private:
  // The parts' Jacobians (of plus or of minus) as diagonal blocks of a matrix with `width` columns.
  bool diagonal(const double* x, double* jacobian, int width, bool plus) const {
    std::fill(jacobian, jacobian + ambient_ * tangent_, 0.0);
    int row = 0, column = 0;
    for (const Manifold& part : parts_) {
      const int n = part.ambient_size(), t = part.tangent_size();
      const int rows = plus ? n : t, columns = plus ? t : n;
      std::vector<double> block(static_cast<std::size_t>(n * t));
      if (!(plus ? part.plus_jacobian(x, block.data()) : part.minus_jacobian(x, block.data())))
        return false;
      for (int r = 0; r < rows; ++r)
        std::copy_n(block.data() + r * columns, columns, jacobian + (row + r) * width + column);
      row += rows;
      column += columns;
      x += n;
    }
    return true;
  }

  std::vector<Manifold> parts_;
  int ambient_ = 0, tangent_ = 0;
};

/// A manifold whose Plus is an expression over x and then δ.
class Traced final : public ExpressedManifold {
 public:
  Traced(int ambient, int tangent, detail::TracedFunction plus, std::string name)
      : plus_(std::move(plus)), ambient_(ambient), tangent_(tangent), name_(std::move(name)) {
    std::vector<std::uint32_t> slots(static_cast<std::size_t>(tangent));
    std::iota(slots.begin(), slots.end(), static_cast<std::uint32_t>(ambient));
    jacobian_ = autodiff::jacobian(plus_.program, slots);
  }

  int ambient_size() const override { return ambient_; }
  int tangent_size() const override { return tangent_; }
  std::string name() const override { return name_; }
  bool plus(const double* x, const double* delta, double* out) const override {
    return evaluate(plus_.program, x, delta, out);
  }
  bool plus_jacobian(const double* x, double* jacobian) const override {
    const std::vector<double> zero(static_cast<std::size_t>(tangent_), 0.0);
    return evaluate(jacobian_, x, zero.data(), jacobian);
  }
  std::vector<Value> expression(std::span<const Value> x,
                                std::span<const Value> delta) const override {
    // Rebuilt from the program, because objects that the user's function refers to may be gone.
    std::vector<Value> nodes, out;
    for (const ir::Node& node : plus_.program.nodes) {
      const auto operand = [&](std::size_t k) {
        return k < node.operands().size() ? nodes[node.operands()[k]] : Value();
      };
      if (node.op == ir::Op::Parameter)
        nodes.push_back(node.slot() < x.size() ? x[node.slot()] : delta[node.slot() - x.size()]);
      else if (node.op == ir::Op::Data)
        nodes.push_back(literal(plus_.numbers[node.slot()]));
      else if (node.op == ir::Op::Literal)
        nodes.push_back(literal(node.literal()));
      else
        nodes.push_back(node.operands().size() == 1 ? Value::make(node.op, operand(0))
                        : node.operands().size() == 2
                            ? Value::make(node.op, operand(0), operand(1))
                            : Value::make(node.op, operand(0), operand(1), operand(2)));
    }
    for (const ir::Id output : plus_.program.outputs) out.push_back(nodes[output]);
    return out;
  }

 private:
  bool evaluate(const ir::Program& program, const double* x, const double* delta,
                double* out) const {
    std::vector<double> arguments(x, x + ambient_);
    arguments.insert(arguments.end(), delta, delta + tangent_);
    const std::vector<double> values =
        ir::evaluate<double>(program, {arguments, plus_.numbers, {}, {}, {}});
    std::ranges::copy(values, out);
    return true;
  }

  detail::TracedFunction plus_;
  ir::Program jacobian_;
  int ambient_, tangent_;
  std::string name_;
};

}  // namespace

std::string ManifoldModel::refusal(const double* x) const {
  const auto n = static_cast<std::size_t>(ambient_size());
  std::vector<double> tangents(n * static_cast<std::size_t>(tangent_size()));
  if (tangents.empty()) return "";
  if (!plus_jacobian(x, tangents.data())) return "it has no tangent space there";
  const auto finite = [](double number) { return std::isfinite(number); };
  if (!std::all_of(x, x + n, finite) || std::ranges::all_of(tangents, finite)) return "";
  return "the derivative of its plus is not finite there";
}
bool ManifoldModel::minus(const double*, const double*, double*) const {
  throw Error(ErrorCode::Unsupported, "manifold: " + name() + " has no minus");
}
bool ManifoldModel::minus_jacobian(const double*, double*) const {
  throw Error(ErrorCode::Unsupported, "manifold: " + name() + " has no minus");
}

Manifold Manifold::euclidean(int size) { return subset(size, {}); }

Manifold Manifold::subset(int size, std::vector<int> constant) {
  expect(size >= 1, "the size must be at least 1, got " + std::to_string(size));
  std::ranges::sort(constant);
  for (std::size_t k = 0; k < constant.size(); ++k) {
    expect(constant[k] >= 0 && constant[k] < size,
           "subset: coordinate " + std::to_string(constant[k]) + " is out of range (size is " +
               std::to_string(size) + ")");
    expect(k == 0 || constant[k] != constant[k - 1],
           "subset: coordinate " + std::to_string(constant[k]) + " is named twice");
  }
  return Manifold(std::make_shared<const Subset>(size, constant));
}

Manifold Manifold::product(std::vector<Manifold> parts) {
  expect(!parts.empty(), "a product must have at least one part");
  return Manifold(std::make_shared<const Product>(std::move(parts)));
}

Manifold Manifold::custom(
    int ambient_size, int tangent_size,
    const std::function<std::vector<Value>(std::span<const Value>, std::span<const Value>)>& plus,
    std::string name) {
  expect(ambient_size >= 1 && tangent_size >= 1 && tangent_size <= ambient_size,
         "custom: the tangent size must be in 1 .. ambient size, got " +
             std::to_string(tangent_size) + " and " + std::to_string(ambient_size));
  const auto n = static_cast<std::size_t>(ambient_size), t = static_cast<std::size_t>(tangent_size);
  const auto rows = [&](std::span<const Value> v) {
    std::vector<Value> out = plus(v.first(n), v.subspan(n));
    if (out.size() != n)
      throw Error(ErrorCode::Shape, "manifold: custom: expected " + std::to_string(n) +
                                        " Values of plus, got " + std::to_string(out.size()));
    return out;
  };
  return Manifold(std::make_shared<const Traced>(
      ambient_size, tangent_size,
      detail::trace_function(
          "custom manifold", n + t, rows,
          {.one = "a block", .all = "all blocks", .advice = "make a manifold for each number"}),
      std::move(name)));
}

}  // namespace topograd
