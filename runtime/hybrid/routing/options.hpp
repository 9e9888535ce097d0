// Options of executors: from a program, and from the environment.
#pragma once

#include "../../../ir/enum_table.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace topograd::runtime::hybrid {

/// Forces all tasks to one side. With `device`, tasks without a suitable device throw.
enum class Force { none, cpu, device };
TG_ENUM_NAMES(Force)

/// Seconds from any fixed start, never decreasing.
using Clock = std::function<double()>;
/// The machine's steady clock.
Clock steady_clock();

/// Set in code, by JSON (parse_hybrid_options) or by the environment (environment_hybrid_options).
/// The names in JSON and in the environment are those of the fields.
struct HybridOptions {
  // The rules, in order.
  Force force = Force::none;     ///< cpu or device: forces every task that sets no `where`
  std::uint64_t min_batch = 64;  ///< items below which a task stays on the CPU
  std::map<std::string, std::uint64_t, std::less<>> min_batch_of =
      {};                          ///< `min_batch` by operation
  bool admit_software = false;     ///< software devices may take tasks
  std::uint64_t memory_limit = 0;  ///< most bytes of a task on a device; 0: the device's memory
  std::uint64_t resident_limit = std::uint64_t{1} << 30;  ///< bytes of inputs kept on a device
  double min_success_rate = 0.95;                         ///< least success rate of a device
  std::uint64_t success_window = 100;  ///< number of last tasks that the rate is taken over
  std::uint64_t success_samples = 20;  ///< number of tasks from which the rate counts
  double speed_up_unsure = 1.5;        ///< required speed-up while confidence is low
  double speed_up_sure = 1.1;          ///< required speed-up at high confidence
  double sure_confidence = 0.5;        ///< confidence that separates low and high, in (0, 1)
  double margin = 1.2;                 ///< a device loses a task below `speed_up_sure` / `margin`
  double step = 1.5;                   ///< factor by which the threshold of an operation changes

  // Exploration: the other side is tried now and then, where that costs little.
  std::uint64_t explore_every = 64;  ///< one task in so many may explore; 0: never
  double explore_share = 0.02;       ///< share of all time that exploration may cost

  // The circuit breaker.
  double back_off_seconds = 15;       ///< first back-off of a breaker; each failure doubles it
  double max_back_off_seconds = 600;  ///< longest back-off of a breaker

  // History.
  std::uint64_t window = 32;        ///< samples of a median
  double outlier_factor = 1.5;      ///< factor to the median from which a sample is an outlier, > 1
  std::uint64_t drift_samples = 3;  ///< outliers in a row that count as drift
  std::uint64_t max_kernels = 4096;  ///< kernels in memory; the least recently used leave first

  // The executor.
  bool coalesce = true;            ///< tasks of one kernel in a list run as one dispatch
  std::uint64_t split_size = 0;    ///< items from which a task may run on both sides; 0: never
  std::uint64_t threads = 0;       ///< threads of the CPU side; 0: all
  bool telemetry = true;           ///< counters and histograms
  std::uint64_t trace_events = 0;  ///< number of last events kept for a trace; 0: no trace
  /// Folder for histories; empty or "none": not stored, "default": the cache folder.
  std::string state = {};
};

/// Reads options from a JSON object with the names of the fields; missing fields are those of
/// `base`.
///
/// Throws Error{Parse} with the line and the column for malformed text, Error{InvalidArgument} that
/// names the field for unknown names, wrong types and values out of range.
HybridOptions parse_hybrid_options(std::string_view json, HybridOptions base = {});
/// Writes every field, readable by parse_hybrid_options().
std::string to_json(const HybridOptions& options);

/// Applies the variables TOPOGRAD_HYBRID_<FIELD> to `base` (TOPOGRAD_HYBRID_MIN_BATCH=128;
/// TOPOGRAD_HYBRID_MIN_BATCH_OF=map=256,scan=4096). TOPOGRAD_HYBRID names a JSON file, read first.
///
/// Throws Error{InvalidArgument} that names the variable; Error{File} for the file.
HybridOptions environment_hybrid_options(HybridOptions base = {});

/// Throws Error{InvalidArgument} that names the field, its range and the value.
void check(const HybridOptions& options);

/// Number of items below which an operation stays on the CPU.
std::uint64_t minimum_batch(const HybridOptions& options, std::string_view operation);

/// Options of the environment; histories are kept in the cache folder by default. Throws the errors
/// of environment_hybrid_options().
HybridOptions process_hybrid_options();

}  // namespace topograd::runtime::hybrid
