// Measures published speedups of similar systems, and long training.
#pragma once

#include "../../../../ops/backend/device.hpp"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace topograd::command {

/// Watts for the arithmetic of energy where no meter can be read.
struct StatedWatts {
  std::optional<double> cpu, device;
};

struct ClaimOptions {
  int samples = 9;
  std::string only;  ///< part of the names of the rows; empty: all
  StatedWatts watts;
};

/// One row per claim: goal (speedup over one CPU thread), cpu_one_us, cpu_us, device_us (wall time,
/// inputs and results stay on the device), transfers_us (inputs from the host, results read back),
/// times_one, times_all, times_one_with_transfers, times_all_with_transfers, cpu_joules and
/// device_joules of one run, or "not measured"; with stated watts also stated_cpu_joules (all
/// threads) and stated_device_joules (with transfers), watts times time. A row that would take too
/// long has only `skipped`, and one that failed only `problem`, with the reason. The last row is
/// the mean of the measured ones, whose number is `rows`; energy_saved and stated_energy_saved are
/// 1 - device / CPU.
///
/// Throws Error{InvalidArgument} if no row has such a name.
nlohmann::ordered_json claim_rows(const ops::Device& device, const ClaimOptions& options);

/// Trains a 784-512-10 network for `steps` steps. Reports bytes in use on the device and resident
/// memory of the process after a tenth of the steps and at the end, and the last loss there and on
/// the CPU.
nlohmann::ordered_json training_report(const ops::Device& device, int steps);

}  // namespace topograd::command
