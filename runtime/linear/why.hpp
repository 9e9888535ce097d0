// The reason for a choice, with the numbers that its sentence names.
#pragma once

#include <array>

namespace topograd::runtime {

/// `Reason` is the enum of a table of sentences (preconditioners.def, matrix_reasons.def). Reports
/// make the sentence (solver/plan/report.hpp).
template <class Reason>
struct Why {
  Reason reason{};
  std::array<double, 6> numbers{};  ///< {0}, {1}, ... of the sentence

  bool operator==(const Why&) const = default;
};

template <class Reason, class... Numbers>
constexpr Why<Reason> because(Reason reason, Numbers... numbers) {
  return {reason, {static_cast<double>(numbers)...}};
}

}  // namespace topograd::runtime
