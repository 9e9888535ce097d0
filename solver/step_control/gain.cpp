// The gain ratio of steps.
#include "gain.hpp"

#include "../../ir/machine/state_record.hpp"

#include <algorithm>

namespace topograd {

void Gain::start(double cost) { minimum_ = current_ = reference_ = candidate_ = cost; }

void Gain::transfer(ir::StateRecord& record) {
  record.in_range("steps since the minimum", steps_, 0, 1 << 30);
  record.value("minimum", minimum_);
  record.value("current cost", current_);
  record.value("reference cost", reference_);
  record.value("candidate cost", candidate_);
  record.value("predicted since reference", predicted_since_reference_);
  record.value("predicted since candidate", predicted_since_candidate_);
}

double Gain::ratio(double cost, double predicted) const {
  return std::max((current_ - cost) / predicted,
                  (reference_ - cost) / (predicted_since_reference_ + predicted));
}

void Gain::accepted(double cost, double predicted) {
  current_ = cost;
  predicted_since_candidate_ += predicted;
  predicted_since_reference_ += predicted;
  if (cost < minimum_) {
    minimum_ = candidate_ = cost;
    steps_ = 0;
    predicted_since_candidate_ = 0;
    return;
  }
  ++steps_;
  if (cost > candidate_) {
    candidate_ = cost;
    predicted_since_candidate_ = 0;
  }
  if (steps_ == max_steps_) {
    reference_ = candidate_;
    predicted_since_reference_ = predicted_since_candidate_;
  }
}

}  // namespace topograd
