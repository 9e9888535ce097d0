// The choice between the CPU and one device, a pure function of predictions of both.
#pragma once

#include "decision.hpp"
#include "options.hpp"

#include <cstdint>

namespace topograd::runtime::hybrid {

/// Assumed cost factor of a side without measurements, when a trial of it is considered.
inline constexpr double kUnknownFactor = 10;

/// The side that runs tasks; `none` if it is not known, or left open.
enum class Side : std::int8_t { none, cpu, device };

/// The side to which the task, or else the options, force it.
Side forced_side(const TaskShape& task, const HybridOptions& options);

/// Facts about tasks that run as one.
struct SideFacts {
  Prediction on_cpu, on_device;
  Side last = Side::none;        ///< where they ran last time that both sides were measured
  bool below_threshold = false;  ///< each has fewer items than the threshold of its operation
  double most_cpu_us = 0;        ///< upper bound of the CPU time; 0 = not known, or do not try it
};

struct SideChoice {
  Side side = Side::cpu;
  Reason reason = Reason::unmeasured;
  double speed_up = 0;    ///< CPU time over device time; 0 = not known
  double needed = 0;      ///< required speed-up of the device; 0 = not asked
  double confidence = 0;  ///< of the comparison: the smaller one of the two sides
};

/// Compares measurements if both sides have them, else guesses, else sizes with thresholds.
///
/// A device that ran them last keeps them until its speed-up is below `speed_up_sure` / `margin`.
SideChoice choose_side(const SideFacts& facts, const HybridOptions& options);

}  // namespace topograd::runtime::hybrid
