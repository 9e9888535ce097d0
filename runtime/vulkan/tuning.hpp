// Choices between two ways to record something: what a record says, what was measured.
#pragma once

#include "../plan/record/plan_record.hpp"

namespace topograd::runtime::vulkan {

/// What a measurement gives: the times of the two.
struct TimesOfTwo {
  double first_us = 0, second_us = 0;

  TimesOfTwo(double first, double second) : first_us(first), second_us(second) {}
  /// Of a choice that was measured before.
  explicit TimesOfTwo(const PlanChoice& choice)
      : TimesOfTwo(choice.candidates.at(0).measured_us, choice.candidates.at(1).measured_us) {}
};

/// The choice that a record has for the same topology, pass and size; null if there is none,
/// or if it is the interpreter's, which chooses nothing.
const PlanChoice* find_choice(const PlanRecord* record, const PlanChoice& wanted);

}  // namespace topograd::runtime::vulkan
