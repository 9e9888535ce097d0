// Derivatives of tensors: reverse mode over the recorded operations.
#include "autograd.hpp"

#include "../../ir/error.hpp"
#include "operations.hpp"
#include "state.hpp"

#include <algorithm>
#include <atomic>
#include <map>

namespace topograd::ops {
namespace detail {
namespace {

thread_local int no_grad_depth = 0;
std::atomic<std::uint64_t> next_order{1};

/// Derivatives by node, the latest node first.
using Adjoints =
    std::map<std::uint64_t, std::pair<std::shared_ptr<GradNode>, Tensor>, std::greater<>>;

void add(Adjoints& adjoints, const std::shared_ptr<GradNode>& node, const Tensor& g) {
  auto& [kept, sum] = adjoints[node->order];
  kept = node;
  sum = sum ? sum + g : g;
}

/// True if the numbers occupy a storage of their own.
bool is_whole(const Tensor& g) {
  const TensorState& state = *g.state();
  return state.data.storage && !state.number && is_contiguous(state.shape, state.data.strides) &&
         static_cast<std::uint64_t>(g.count()) * size_of(state.type) == state.data.storage->bytes();
}

/// Adds to the leaves; sums are computed at once, so that they keep nothing alive.
void finish(const std::shared_ptr<GradNode>& leaf, const Tensor& g) {
  if (leaf->grad) {
    leaf->grad = (leaf->grad + g).evaluate();
  } else {
    leaf->grad = is_whole(g) ? g.detach() : (g + 0.0).evaluate();
  }
}

}  // namespace

GradNode::GradNode(Shape node_shape, Type node_type)
    : shape(std::move(node_shape)),
      type(node_type == Type::f16 ? Type::f32 : node_type),
      order(next_order++) {}

GradNode::~GradNode() {
  std::vector<std::shared_ptr<GradNode>> open = std::move(inputs);
  while (!open.empty()) {
    const std::shared_ptr<GradNode> node = std::move(open.back());
    open.pop_back();
    if (node.use_count() != 1) continue;
    std::ranges::move(node->inputs, std::back_inserter(open));
    node->inputs.clear();
  }
}

bool wants_grad(std::span<const Tensor> inputs) {
  if (no_grad_depth > 0) return false;
  return std::ranges::any_of(inputs,
                             [](const Tensor& t) { return t && t.state()->node != nullptr; });
}

void record(const Tensor& out, std::span<const Tensor> inputs,
            std::function<std::vector<Tensor>(const Tensor& g)> pull) {
  if (!wants_grad(inputs)) return;
  auto node = std::make_shared<GradNode>(out.shape(), out.type());
  for (const Tensor& input : inputs) node->inputs.push_back(input.state()->node);
  node->pull = std::move(pull);
  out.state()->node = std::move(node);
}

Tensor sum_to(const Tensor& g, const Shape& shape) {
  if (g.shape() == shape) return g;
  std::vector<std::int64_t> axes;
  const std::size_t front = g.rank() - shape.size();
  for (std::size_t k = 0; k < g.rank(); ++k) {
    if (k < front || (shape[k - front] == 1 && g.shape()[k] != 1))
      axes.push_back(static_cast<std::int64_t>(k));
  }
  const Tensor summed = axes.empty() ? g : sum(g, axes, true);
  return summed.reshape(shape);
}

}  // namespace detail

using detail::state_of;

NoGrad::NoGrad() { ++detail::no_grad_depth; }
NoGrad::~NoGrad() { --detail::no_grad_depth; }

Tensor& Tensor::requires_grad() {
  detail::TensorState& own = state_of("requires_grad", *this);
  if (own.node != nullptr && own.node->pull) {
    throw Error(
        ErrorCode::InvalidArgument,
        "requires_grad: expected a tensor that was not computed from others that require it");
  }
  detail::data_of(*this);
  own.number = false;
  own.pending = nullptr;
  if (own.node == nullptr) own.node = std::make_shared<detail::GradNode>(own.shape, own.type);
  return *this;
}

bool Tensor::has_grad() const { return state_of("has_grad", *this).node != nullptr; }

void Tensor::backward() const {
  state_of("backward", *this);
  if (count() != 1) {
    throw Error(ErrorCode::Shape, "backward: expected one number, got " + to_text(shape()));
  }
  backward(full(shape(), 1, type()));
}

void Tensor::backward(const Tensor& seed) const {
  const detail::TensorState& own = state_of("backward", *this);
  const detail::TensorState& given = state_of("backward", seed);
  if (own.node == nullptr) {
    throw Error(ErrorCode::NoParameters,
                "backward: expected a tensor that depends on one that requires_grad()");
  }
  if (seed.shape() != shape()) {
    throw Error(ErrorCode::Shape, "backward: expected a seed of " + to_text(shape()) + ", got " +
                                      to_text(seed.shape()));
  }
  const Type type = own.node->type;
  if (given.type != type && !given.number && !(given.type == Type::f16 && type == Type::f32)) {
    throw Error(ErrorCode::InvalidArgument, "backward: expected a seed of " +
                                                std::string(ops::name(type)) + ", got " +
                                                std::string(ops::name(given.type)));
  }
  const NoGrad guard;
  detail::Adjoints open;
  Tensor placed = given.type == type ? seed : seed.to(type);
  if (own.device) placed = placed.to(*own.device);
  // The caller may write to shared memory, which must not affect derivatives.
  if (placed.state()->data.storage) placed = placed + 0.0;
  detail::add(open, own.node, placed);
  while (!open.empty()) {
    const auto [node, g] = std::move(open.begin()->second);
    open.erase(open.begin());
    if (!node->pull) {
      detail::finish(node, g);
      continue;
    }
    const std::vector<Tensor> pulled = node->pull(g);
    for (std::size_t k = 0; k < node->inputs.size(); ++k)
      if (node->inputs[k] != nullptr && pulled[k]) detail::add(open, node->inputs[k], pulled[k]);
  }
}

Tensor Tensor::grad() const {
  const detail::TensorState& own = state_of("grad", *this);
  if (own.node == nullptr || own.node->pull) {
    throw Error(ErrorCode::InvalidArgument, "grad: expected a tensor that requires_grad()");
  }
  if (own.node->grad) return own.node->grad;
  return detail::full_like(*this, 0);
}

void Tensor::zero_grad() const {
  if (state_of("zero_grad", *this).node != nullptr) state_->node->grad = Tensor();
}

Tensor Tensor::detach() const {
  state_of("detach", *this);
  detail::data_of(*this);
  auto state = std::make_shared<detail::TensorState>(*state_);
  state->node = nullptr;
  return Tensor(std::move(state));
}

void Tensor::assign(const Tensor& numbers) const {
  detail::TensorState& own = state_of("assign", *this);
  const detail::TensorState& from = state_of("assign", numbers);
  if (own.shape != from.shape || own.type != from.type) {
    throw Error(ErrorCode::Shape, "assign: expected " + std::string(ops::name(own.type)) + " of " +
                                      to_text(own.shape) + ", got " +
                                      std::string(ops::name(from.type)) + " of " +
                                      to_text(from.shape));
  }
  if (own.node != nullptr && own.node->pull) {
    throw Error(ErrorCode::InvalidArgument,
                "assign: expected a tensor that was not computed from others that require_grad()");
  }
  own.data = detail::data_of(numbers);
  own.pending = nullptr;
  own.number = false;
}

}  // namespace topograd::ops
