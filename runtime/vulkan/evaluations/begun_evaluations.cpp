// Evaluations that are begun now and read later.
#include "begun_evaluations.hpp"

#include "../../../ir/error.hpp"

#include <array>
#include <string>

namespace topograd::runtime::vulkan {

/// An evaluation in flight. The engine outlives it.
class BegunEvaluations::InFlight final : public Pending {
 public:
  InFlight(BegunEvaluations& begun, Slot& slot, KernelKind kind, std::span<double> out)
      : begun_(begun), slot_(slot), kind_(kind), out_(out), submission_(begun.recorder_.last()) {
    slot_.owner = this;
  }
  ~InFlight() override {
    if (!finished_) slot_.owner = nullptr;
  }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  bool ready() const override { return finished_ || submission_.done(); }

  void finish() override {
    if (finished_) return;
    begun_.read(slot_, kind_, submission_, out_);
    finished_ = true;
    slot_.owner = nullptr;
  }

 private:
  BegunEvaluations& begun_;
  Slot& slot_;
  KernelKind kind_;
  std::span<double> out_;
  Submission submission_;
  bool finished_ = false;
};

void BegunEvaluations::need(Needs& needs, KernelKind kind) {
  switch (kind) {
    case KernelKind::residual: return rows_.need(needs, Pass::residual);
    case KernelKind::jvp: return rows_.need(needs, Pass::jvp);
    case KernelKind::gradient: return sums_.need(needs, Pass::gradient);
    case KernelKind::jtjp: return sums_.need(needs, Pass::jtjp);
    case KernelKind::hvp: return sums_.need(needs, Pass::hvp);
    case KernelKind::cost: return terms_.need_cost(needs);
    default: break;
  }
  throw Error(
      ErrorCode::Unsupported,
      "begin: expected cost, residual, gradient, jvp, jtjp or hvp, got " + std::string(name(kind)));
}

void BegunEvaluations::record(CommandList& list, KernelKind kind, Slot& slot) {
  const Operands with = terms_.operands(v_.x, &v_.direction);
  const auto rows = [&](Pass pass) {
    rows_.record(list, pass, with);
    rows_.record_readbacks(list, pass, slot.rows, true);
  };
  const auto sum = [&](Pass pass) {
    sums_.use(pass);
    sums_.record(list, pass, with, v_.result);
    slot.result.record(context_, list, v_.result, true);
  };
  switch (kind) {
    case KernelKind::residual: return rows(Pass::residual);
    case KernelKind::jvp: return rows(Pass::jvp);
    case KernelKind::gradient: return sum(Pass::gradient);
    case KernelKind::jtjp: return sum(Pass::jtjp);
    case KernelKind::hvp: return sum(Pass::hvp);
    case KernelKind::cost:
      terms_.record_cost(list, v_.x, codegen::Scalar::cost);
      return slot.result.record(context_, list, v_.ops->scalars(), true);
    default: break;  // need() has refused it
  }
}

void BegunEvaluations::read(const Slot& slot, KernelKind kind, const Submission& after,
                            std::span<double> out) {
  if (kind == KernelKind::residual) return rows_.copy(Pass::residual, slot.rows, after, out);
  if (kind == KernelKind::jvp) return rows_.copy(Pass::jvp, slot.rows, after, out);
  if (kind != KernelKind::cost) return problem_.read(slot.result, after, v_.result, out);
  std::array<double, codegen::kScalarCount> scalars{};
  slot.result.read(context_, after, v_.ops->scalars(),
                   context_.scalar_precision() == Precision::f64, scalars);
  out[0] = scalars[codegen::slot(codegen::Scalar::cost)];
}

std::unique_ptr<Pending> BegunEvaluations::begin(KernelKind kind, std::span<const double> x,
                                                 std::span<const double> p, std::span<double> out) {
  const std::size_t turn = turns_[kind]++ % kSlots;
  std::unique_ptr<Slot>& slot = (*slots_)[{kind, turn}];
  if (!slot) slot = std::make_unique<Slot>();
  if (slot->owner != nullptr) slot->owner->finish();
  points_.set(x);
  if (!p.empty()) problem_.write(v_.direction, p);
  recorder_.evaluate(
      std::string(name(kind)) + "_" + std::to_string(turn),
      [&](Needs& needs) { need(needs, kind); },
      [&](CommandList& list) { record(list, kind, *slot); });
  return std::make_unique<InFlight>(*this, *slot, kind, out);
}

void BegunEvaluations::finish() {
  for (auto& [key, slot] : *slots_) {
    if (slot->owner != nullptr) slot->owner->finish();
  }
}

}  // namespace topograd::runtime::vulkan
