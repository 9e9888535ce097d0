// Times of array operations for several sizes, on a device and on the CPU.
#pragma once

#include "bench_ops_claims.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace topograd::command {

struct OpsArguments {
  /// A single size instead of 10³ ... 10⁸, as far as memory suffices.
  std::optional<std::uint64_t> count;
  std::string backend;  ///< cpu: only the CPU; vulkan; automatic: the best device
  std::string device;
  int samples = 9;
  bool cpu = true;           ///< also time the CPU
  bool claims = false;       ///< only published figures (claim_rows())
  std::string claim;         ///< of these, rows with such a name
  StatedWatts watts;         ///< for these
  bool shapes = false;       ///< only fixed shapes with at most `count` numbers (shape_rows())
  std::optional<int> steps;  ///< only training with this number of steps (training_report())
};

/// Measures each operation at each size. Keys: device, cpu_threads, copy_gb_s (read and written,
/// for the largest size), gmadd_s (multiply-adds of f32), unified (whether the host reaches all of
/// the device's memory), host_memory (bytes uploaded and downloaded, and peak bytes on the device,
/// for an array and for the caller's memory in place), rows (op, count; device_us by its clock,
/// device_wall_us without transfers, transfers_wall_us with inputs from the host and results back,
/// cpu_us, cpu_one_us on one thread; gb_s and share_of_copy for the bytes that must be read and
/// written once, gmadd_s and share_of_arithmetic), crossover (for each operation, the size from
/// which the device is faster without transfers; 0 = never; only if the CPU is timed) and
/// crossover_with_transfers (for transfers_wall_us).
///
/// Throws Error{InvalidArgument} for a count or steps below 1.
nlohmann::ordered_json run_bench_ops(const OpsArguments& arguments);

/// Initial guess, threshold and factor of each operation, for `topograd info --ops`.
nlohmann::ordered_json describe_operations();

}  // namespace topograd::command
