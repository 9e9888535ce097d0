// Detection of chains, and the locations of their operands.
#include "chain.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace topograd::ops {
namespace {

namespace hybrid = runtime::hybrid;

// Maximum number of operations of a chain, and minimum number of remembered chains.
constexpr std::size_t kMostOperations = 256, kMostPlans = 128;
// Maximum number of repetitions over which the copy of a reused operand is spread.
constexpr std::uint64_t kMostRepeats = 16;

ir::Hash128 key_of_task(const hybrid::TaskShape& shape) {
  ir::Hash128 key = shape.kernel;
  key.add(shape.size);
  return key;
}

ir::Hash128 joined(ir::Hash128 a, const ir::Hash128& b) {
  a.add(b.high);
  a.add(b.low);
  return a;
}

}  // namespace

Chain& Chain::of_thread() {
  thread_local Chain chain;
  return chain;
}

/// Hash of an operation within the passes of a loop, if the host is involved: its operands from the
/// host are new or the same in each pass, the others are computed.
std::optional<ir::Hash128> Chain::signature(const OpCall& call, const ir::Hash128& key) const {
  ir::Hash128 out = key;
  bool of_host = call.inputs.empty();
  for (const auto& input : call.inputs) {
    if (input->maker()) {
      out.add(1);
      continue;
    }
    of_host = true;
    out.add(input->is_first_use() ? 2 : reinterpret_cast<std::uintptr_t>(input.get()));
  }
  return of_host ? std::optional(out) : std::nullopt;
}

/// True if an operand was computed by the chain.
bool Chain::goes_on(const OpCall& call) const {
  return std::ranges::any_of(call.inputs, [&](const auto& input) {
    const std::shared_ptr<Maker> maker = input->maker();
    return maker && maker->chain == id_;
  });
}

bool Chain::next(const OpCall& call, const hybrid::TaskShape& shape) {
  const ir::Hash128 key = key_of_task(shape);
  const std::optional<ir::Hash128> sign = signature(call, key);
  const auto before = sign ? op_of_signature_.find(*sign) : op_of_signature_.end();
  if (before != op_of_signature_.end()) {
    const std::size_t loop = before->second;
    if (loop > 0) finish(0, loop);
    finish(loop, ops_.size());
    start_anew();
  } else if (ops_.size() >= kMostOperations || (read_ && !ops_.empty() && !goes_on(call))) {
    finish(0, ops_.size());
    start_anew();
  }
  read_ = false;
  bool found = false;
  if (ops_.empty()) {
    static std::atomic<std::uint64_t> chains{0};
    id_ = ++chains;
    plan_ = find(joined(key, before_));
    if (!plan_) plan_ = find(key);
    found = plan_ != nullptr;
  } else if (!plan_ || ops_.size() >= plan_->ops.size() || plan_->ops[ops_.size()].key != key) {
    // Another operation than expected: the second operation selects the chain.
    plan_ = ops_.size() == 1 ? find(joined(ops_.front().key, key)) : nullptr;
    placed_.reset();
    found = plan_ != nullptr;
  }
  if (sign) op_of_signature_.try_emplace(*sign, ops_.size());
  ChainOp& op = ops_.emplace_back();
  op.key = key;
  op.shape = shape;
  op.shape.bytes_in = op.shape.bytes_out = op.shape.bytes_away = 0;
  op.shape.resident = {};
  op.maker = std::make_shared<Maker>();
  op.maker->operation = shape.operation;
  op.maker->chain = id_;
  for (const auto& input : call.inputs) {
    const std::shared_ptr<Maker> maker = input->maker();
    if ((maker && maker->chain == id_) || !seen_.insert(input.get()).second) continue;
    op.outside.push_back({input, input->bytes(), maker != nullptr});
  }
  return found;
}

void Chain::described(const hybrid::TaskShape& shape) {
  hybrid::TaskShape& own = ops_.back().shape;
  own.minimum = shape.minimum;
  own.targets = shape.targets;
  own.admit_software = shape.admit_software;
}

std::span<const hybrid::TaskShape> Chain::expected(std::size_t targets, const Locate& locate) {
  shapes_.clear();
  if (!plan_) return {};
  resident_.assign(plan_->ops.size() * targets, 0);
  const std::uint64_t passes = 1 + std::min(plan_->repeats, kMostRepeats);
  for (const ChainOp& op : std::span(plan_->ops).subspan(ops_.size() - 1)) {
    const auto resident = std::span(resident_).subspan(shapes_.size() * targets, targets);
    hybrid::TaskShape& shape = shapes_.emplace_back(op.shape);
    shape.bytes_out = op.read();
    shape.resident = resident;
    for (const ChainOp::Outside& outside : op.outside) {
      const std::shared_ptr<Storage> storage = outside.storage.lock();
      Whereabouts where;
      if (storage) {
        where = locate(*storage);
      } else if (outside.made && last_target_ != hybrid::kCpu) {
        where = {.on_host = false, .device = last_target_};
      }
      // Operands that are used again are copied once.
      const bool stays = storage || outside.made;
      const std::uint64_t bytes = outside.bytes / (stays ? passes : 1);
      shape.bytes_in += bytes;
      if (where.device < targets) resident[where.device] += bytes;
      if (where.on_host || where.device == hybrid::kCpu) continue;
      shape.bytes_away += bytes;
      shape.away_on = where.device;
    }
  }
  return shapes_;
}

std::optional<std::uint64_t> Chain::expected_read() const {
  if (!plan_) return std::nullopt;
  return plan_->ops[ops_.size() - 1].read();
}

void Chain::ran(const OpCall& call, std::size_t target) {
  last_target_ = target;
  for (const auto& output : call.outputs) output->made_by(ops_.back().maker);
}

std::shared_ptr<const Chain::Plan> Chain::find(const ir::Hash128& key) {
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  const auto found = older_plans_.find(key);
  return found == older_plans_.end() ? nullptr : found->second;
}

void Chain::keep(const ir::Hash128& key, std::shared_ptr<const Plan> plan) {
  if (plans_.size() >= kMostPlans) older_plans_ = std::exchange(plans_, {});
  plans_[key] = std::move(plan);
}

/// Stores operations [begin, end) as a chain.
void Chain::finish(std::size_t begin, std::size_t end) {
  auto plan = std::make_shared<Plan>();
  const auto first = ops_.begin();
  plan->ops.assign(std::make_move_iterator(first + static_cast<std::ptrdiff_t>(begin)),
                   std::make_move_iterator(first + static_cast<std::ptrdiff_t>(end)));
  for (const ChainOp& op : plan->ops) {
    plan->content = joined(plan->content, op.key);
    plan->cpu_us += op.shape.most_cpu_us;
  }
  const ir::Hash128 kernel = plan->ops.front().key, key = joined(kernel, before_);
  const std::shared_ptr<const Plan> after = find(key), usual = find(kernel);
  const std::shared_ptr<const Plan> last = after ? after : usual;
  const bool again = last && last->content == plan->content;
  if (again) {
    plan->repeats = last->repeats + 1;
    for (std::size_t k = 0; k < plan->ops.size(); ++k)
      plan->ops[k].read_before = last->ops[k].maker->read;
  }
  before_ = plan->content;
  if (after || (usual && !again)) keep(key, plan);
  if (plan->ops.size() > 1) keep(joined(kernel, plan->ops[1].key), plan);
  keep(kernel, std::move(plan));
}

/// Starts a chain with the next operation.
void Chain::start_anew() {
  ops_.clear();
  op_of_signature_.clear();
  seen_.clear();
  plan_ = nullptr;
  placed_.reset();
}

}  // namespace topograd::ops
