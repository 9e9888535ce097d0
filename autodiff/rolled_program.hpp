// Long programs that repeat themselves, such as the steps of an integrator, as three short ones.
#pragma once

#include "../ir/program.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace topograd::autodiff {

/// A program with one loop: what is evaluated before it, in each of its steps, and after it.
///
/// Parameters of `step` and `after`: those of the program, then the states, then the constants.
/// Their uniforms are those of the program. Data slots are renumbered.
struct RolledProgram {
  /// A data slot of a part: the slot of the program that step k reads, first + k * step.
  struct Datum {
    std::uint32_t first = 0;
    std::int32_t step = 0;
    std::uint32_t at(std::uint32_t k) const {
      return static_cast<std::uint32_t>(std::int64_t{first} + std::int64_t{step} * k);
    }
    bool operator==(const Datum&) const = default;
  };
  struct Part {
    ir::Program program;
    std::vector<Datum> data;  ///< by its data slots
    std::size_t rows = 0;     ///< first outputs, which are rows of the program
  };

  Part before;  ///< rows, then the states that the first step reads, then the constants
  Part step;    ///< rows, then the states that the next step reads
  Part after;   ///< rows alone
  std::uint32_t steps = 0;
  std::uint32_t states = 0;     ///< numbers that a step hands to the next one
  std::uint32_t constants = 0;  ///< numbers computed before the loop that all steps read
};

/// Rolls the largest repetition of a program. The rows are evaluated by the same operations, in
/// another order. Nothing if there are guards, if repetitions are not most of the program, or if
/// what they read is neither of the same step, nor of one of a few before it, nor of before the
/// loop.
///
/// Cost: that of find_repetitions().
std::optional<RolledProgram> roll(const ir::Program& f);

}  // namespace topograd::autodiff
