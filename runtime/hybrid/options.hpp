// Every number that routing between CPU and devices depends on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace topograd::runtime::hybrid {

/// Where every task runs, whatever the rules say. With `device`, tasks that find none throw.
enum class Force { none, cpu, device };
/// "none", "cpu" or "device".
std::string_view name(Force force);

/// Seconds from any fixed start, never running back.
using Clock = std::function<double()>;
/// The machine's steady clock.
Clock steady_clock();

/// Set in code, by JSON (parse_hybrid_options) or by the environment (environment_hybrid_options).
/// docs/hybrid.md says what each is for; the names there, in JSON and here are the same.
struct HybridOptions {
  // Rules, in the order in which they are asked.
  Force force = Force::none;
  std::uint64_t min_batch = 64;  ///< instances below which a task stays on the CPU
  std::map<std::string, std::uint64_t, std::less<>> min_batch_of;  ///< the same, by operation
  bool admit_software = false;     ///< devices that are the CPU in disguise take tasks, too
  std::uint64_t memory_limit = 0;  ///< bytes of one task on a device; 0 = the device's own
  std::uint64_t resident_limit = std::uint64_t{1} << 30;  ///< bytes of inputs kept on a device
  double min_success_rate = 0.95;                         ///< of a device, in [0, 1]
  std::uint64_t success_window = 100;  ///< last tasks of a device that the rate is taken over
  std::uint64_t success_samples = 20;  ///< of them before the rate counts
  double speed_up_unsure = 1.5;        ///< that a device must show while confidence is low
  double speed_up_sure = 1.1;          ///< and later
  double sure_confidence = 0.5;        ///< in (0, 1)
  double margin = 1.2;  ///< a device keeps a task until its speed-up is this much lower
  double step = 1.5;    ///< by which an operation's threshold grows or shrinks

  // Exploration: the other side is tried now and then, where that costs little.
  std::uint64_t explore_every = 64;  ///< tasks for one that explores; 0 = never
  double explore_share = 0.02;       ///< of all time that exploring may have cost

  // The circuit breaker.
  double back_off_seconds = 15;       ///< before the first probe; doubled by each that fails
  double max_back_off_seconds = 600;  ///< at most

  // History.
  std::uint64_t window = 32;         ///< samples of one size class that a median is taken over
  double outlier_factor = 1.5;       ///< times the median that a sample is no longer normal, > 1
  std::uint64_t drift_samples = 3;   ///< outliers in a row that are the new truth
  std::uint64_t max_kernels = 4096;  ///< kernels remembered; the least recently used go first

  // The executor.
  bool coalesce = true;            ///< tasks of one kernel in a list become one dispatch
  std::uint64_t split_size = 0;    ///< items from which a task may run on both sides; 0 = never
  std::uint64_t threads = 0;       ///< of the CPU side; 0 = all
  bool telemetry = true;           ///< counters and histograms
  std::uint64_t trace_events = 0;  ///< last ones that are kept for a trace; 0 = no trace
  /// Folder that histories are kept in; empty or "none" = nowhere, "default" = the caches'.
  std::string state;
};

/// Options from a JSON object whose names are those of the fields; what it leaves out is as in
/// `base`.
///
/// Throws Error{Parse} with the place for malformed text, Error{InvalidArgument} that names the
/// field for unknown names, wrong types and values out of range.
HybridOptions parse_hybrid_options(std::string_view json, HybridOptions base = {});
/// Every field, readable by parse_hybrid_options().
std::string to_json(const HybridOptions& options);

/// `base` with what TOPOGRAD_HYBRID_<FIELD> says (TOPOGRAD_HYBRID_MIN_BATCH=128;
/// TOPOGRAD_HYBRID_MIN_BATCH_OF=map=256,scan=4096). TOPOGRAD_HYBRID names a JSON file, read first.
///
/// Throws Error{InvalidArgument} that names the variable; Error{File} for the file.
HybridOptions environment_hybrid_options(HybridOptions base = {});

/// Throws Error{InvalidArgument} that names the field, its range and the value.
void check(const HybridOptions& options);

/// Below this many items an operation stays on the CPU.
std::uint64_t minimum_batch(const HybridOptions& options, std::string_view operation);

}  // namespace topograd::runtime::hybrid
