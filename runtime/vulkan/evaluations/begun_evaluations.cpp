// Evaluations that are begun now and read later.
#include "begun_evaluations.hpp"

#include "../../../ir/error.hpp"

#include <array>
#include <string>

namespace topograd::runtime::vulkan {

/// An evaluation in flight. The engine outlives it.
class BegunEvaluations::InFlight final : public Pending {
 public:
  InFlight(BegunEvaluations& begun, Slot& slot, Pass pass, std::span<double> out)
      : begun_(begun), slot_(slot), pass_(pass), out_(out), submission_(begun.recorder_.last()) {
    slot_.in_flight = this;
  }
  ~InFlight() override {
    if (!finished_) slot_.in_flight = nullptr;
  }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  bool ready() const override { return finished_ || submission_.done(); }

  void finish() override {
    if (finished_) return;
    begun_.read(slot_, pass_, submission_, out_);
    finished_ = true;
    slot_.in_flight = nullptr;
  }

 private:
  BegunEvaluations& begun_;
  Slot& slot_;
  Pass pass_;
  std::span<double> out_;
  Submission submission_;
  bool finished_ = false;
};

void BegunEvaluations::record(CommandList& list, Pass pass, Slot& slot) {
  const Operands with = terms_.operands(v_.x, &v_.direction);
  switch (pass) {
    case Pass::residual:
    case Pass::jvp:
      rows_.record(list, pass, with);
      return rows_.record_readbacks(list, pass, slot.rows, true);
    case Pass::gradient:
    case Pass::jtjp:
    case Pass::hvp:
      sums_.use(pass);
      sums_.record(list, pass, with, v_.result);
      return slot.result.record(context_, list, v_.result, true);
    case Pass::cost:
      terms_.record_cost(list, v_.x, codegen::Scalar::cost);
      return slot.result.record(context_, list, v_.ops->scalars(), true);
    case Pass::jacobian:
    case Pass::blocks:
    case Pass::vjp:
    case Pass::hessian:
    case Pass::cost_gradient:
    case Pass::values:
    case Pass::stored_jacobian:
    case Pass::stored_jtjp:
    case Pass::diagonal:
    case Pass::guards: break;
  }
  throw Error(
      ErrorCode::Unsupported,
      "begin: expected cost, residual, gradient, jvp, jtjp or hvp, got " + std::string(name(pass)));
}

void BegunEvaluations::read(const Slot& slot, Pass pass, const Submission& after,
                            std::span<double> out) {
  if (pass == Pass::residual || pass == Pass::jvp) return rows_.copy(pass, slot.rows, after, out);
  if (pass != Pass::cost) return problem_.read(slot.result, after, v_.result, out);
  std::array<double, codegen::kScalarCount> scalars{};
  slot.result.read(context_, after, v_.ops->scalars(),
                   context_.scalar_precision() == Precision::f64, scalars);
  out[0] = scalars[codegen::slot(codegen::Scalar::cost)];
}

std::unique_ptr<Pending> BegunEvaluations::begin(Pass pass, std::span<const double> x,
                                                 std::span<const double> p, std::span<double> out) {
  const std::size_t turn = turns_[pass]++ % kSlots;
  std::unique_ptr<Slot>& slot = (*slots_)[{pass, turn}];
  if (!slot) slot = std::make_unique<Slot>();
  if (slot->in_flight != nullptr) slot->in_flight->finish();
  points_.set(x);
  if (!p.empty()) problem_.write(v_.direction, p);
  recorder_.evaluate(std::string(name(pass)) + "_" + std::to_string(turn),
                     [&](CommandList& list) { record(list, pass, *slot); });
  return std::make_unique<InFlight>(*this, *slot, pass, out);
}

void BegunEvaluations::finish() {
  for (auto& [key, slot] : *slots_) {
    if (slot->in_flight != nullptr) slot->in_flight->finish();
  }
}

}  // namespace topograd::runtime::vulkan
