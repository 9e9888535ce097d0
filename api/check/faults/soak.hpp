// Self-test of endurance: solves without a pause, while memory and handles must stay what they are.
#pragma once

#include "../../../solver/options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace topograd::check {

struct SoakOptions {
  std::optional<Backend> backend;  ///< otherwise the CPU, and the device if there is one
  std::string device;              ///< index or name; empty as everywhere
  double seconds = 600;            ///< > 0
  std::uint64_t open_every = 0;    ///< rounds after which the device is opened anew; 0: never
};

/// A figure of the process after warming up and at the end.
struct SoakFigure {
  std::string name;  ///< "resident_bytes", "heap_bytes", "device_bytes", "open_files", ...
  std::uint64_t first = 0, last = 0;
  bool may_vary = false;  ///< by kMostGrowth or kLeastBytes, as against not at all

  double growth() const;  ///< (last − first) / first
  bool broken() const;
};

/// Largest growth of memory.
inline constexpr double kMostGrowth = 0.01;
/// Growth that is none: histories that are not full yet.
inline constexpr std::uint64_t kLeastBytes = 64 << 10;

struct SoakReport {
  std::string device;  ///< empty: none
  /// Precision on the device: f32 if it has no other. Solves on the CPU are in f64.
  Precision precision = Precision::f64;
  double seconds = 0;
  std::uint64_t rounds = 0;  ///< number of repetitions of the same work
  std::uint64_t solves = 0, steps = 0, evaluations = 0, tasks = 0;
  std::uint64_t openings = 0;  ///< of the device
  std::uint64_t wrong = 0;     ///< answers
  std::vector<SoakFigure> figures;

  /// A wrong answer, or something that grew.
  bool broken() const;
};

/// Repeats the same work until the time is over: problems are built and solved on each backend, by
/// fresh Solvers and by one that goes on, evaluated, and tasks run. The first third of the time
/// warms up; from each of the others the least of each figure is taken, so that what is in flight
/// at a moment does not count.
///
/// Throws Error{NoDevice, ...} for backend vulkan without a device, Error{InvalidArgument}.
SoakReport check_soak(const SoakOptions& options);

}  // namespace topograd::check
