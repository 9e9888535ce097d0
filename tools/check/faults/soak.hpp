// Self-test of endurance: repeated solves, in which memory, handles and driver objects do not grow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../../../solver/options.hpp"

namespace topograd::check {

/// Starts counting with the next device.
void watch_driver_objects();
/// Number of existing objects; 0 before watch_driver_objects().
std::uint64_t driver_objects();
/// Bytes that open devices of this process have reserved.
std::uint64_t driver_bytes();
/// Releases devices that nobody uses.
void let_go_of_devices();

/// Repeated solves during which memory and handles must not grow.
struct SoakOptions {
  std::optional<Backend> backend;  ///< empty: the CPU, and the device if there is one
  std::string device;              ///< index or name; may be empty
  double seconds = 600;            ///< > 0
  /// Number of rounds after which the device is opened again; 0: never.
  std::uint64_t open_every = 0;
};

/// A figure of the process after the warm-up and at the end.
struct SoakFigure {
  std::string name;  ///< "resident_bytes", "heap_bytes", "device_bytes", "open_files", ...
  std::uint64_t first = 0, last = 0;
  /// Largest allowed growth as a fraction, where it is more than kLeastBytes; 0: must not grow.
  double allowed = 0;

  double growth() const;  ///< (last − first) / first
  bool broken() const;
};

/// Largest allowed growth of the heap and of the device's memory.
inline constexpr double kMostGrowth = 0.01;
/// The same of resident memory: the system takes away pages that are not in use, and they come
/// back. A quiet process has had 2.3 % more in 60 s, with the heap as it was.
inline constexpr double kMostResidentGrowth = 0.05;
/// Growth below this is ignored: histories that are not full yet.
inline constexpr std::uint64_t kLeastBytes = 64 << 10;

struct SoakReport {
  std::string device;  ///< empty: none
  /// Precision on the device: f32 if it has no other. Solves on the CPU use f64.
  Precision precision = Precision::f64;
  double seconds = 0;
  std::uint64_t rounds = 0;  ///< number of repetitions of the same work
  std::uint64_t solves = 0, steps = 0, evaluations = 0, tasks = 0;
  std::uint64_t openings = 0;  ///< times that the device was opened
  std::uint64_t wrong = 0;     ///< wrong answers
  std::vector<SoakFigure> figures;

  /// True if there was a wrong answer or a figure grew too much.
  bool broken() const;
};

/// Repeats the same work until the time is over: builds and solves problems on each backend, with
/// new Solvers and with one that is reused, evaluates them, and runs tasks. The first third of the
/// time is the warm-up. From each of the other thirds the minimum of each figure is used, so that
/// work in flight does not count.
///
/// Throws Error{NoDevice, ...} for backend vulkan without a device, Error{InvalidArgument}.
SoakReport check_soak(const SoakOptions& options);

}  // namespace topograd::check
