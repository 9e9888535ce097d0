// Times of array operations by size, on a device and on the CPU.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace topograd::command {

struct OpsArguments {
  std::optional<std::uint64_t> count;  ///< one size instead of 10³ ... 10⁸, as far as memory goes
  std::string backend;                 ///< cpu: only that; vulkan; automatic: the best device
  std::string device;
  int samples = 9;
  bool cpu = true;           ///< time the CPU as well
  bool claims = false;       ///< only what others claim (claim_rows())
  bool shapes = false;       ///< only fixed shapes, of at most `count` numbers (shape_rows())
  std::optional<int> steps;  ///< only so many of training (training_report())
};

/// Each operation at each size. Keys: device, cpu_threads, copy_gb_s (read and written, of the
/// largest size), gmadd_s (multiply-adds of f32), host_memory (bytes that go up and down, and the
/// most that the device holds, for an array and for the caller's memory in place), rows (op, count;
/// device_us by its clock, device_wall_us without transfers, transfers_wall_us with the inputs from
/// the host and the results back, cpu_us, cpu_one_us on one thread; gb_s and share_of_copy of what
/// must be read and written once, gmadd_s and share_of_arithmetic), crossover (by operation: the
/// size from which the device wins without transfers; 0 = never; not without the CPU's times) and
/// crossover_with_transfers (of transfers_wall_us).
///
/// Throws Error{InvalidArgument} for a count or steps below 1.
nlohmann::ordered_json run_bench_ops(const OpsArguments& arguments);

/// Guess, threshold and factor of each operation, for `topograd info --ops`.
nlohmann::ordered_json describe_operations();

}  // namespace topograd::command
