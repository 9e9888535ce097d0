// Devices as the hybrid executor sees them.
#pragma once

#include "routing/scheduler.hpp"
#include "task.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topograd::runtime::hybrid {

/// One place where tasks can run.
struct Capabilities {
  std::string name;
  std::string kind;  ///< "cpu", "discrete", "integrated", "software", ...
  std::string driver;
  std::uint64_t memory_bytes = 0;     ///< 0 = not known
  std::vector<std::string> features;  ///< what the device has, by name
  bool available = true;
  std::string problem;  ///< unless available
  int threads = 0;      ///< of the CPU
  std::string simd;     ///< of the CPU: simd_level()
};

/// The widest vector instructions of this processor that kernels use: "baseline", "avx2" or
/// "avx512".
std::string simd_level();

/// A number that a device counts by itself: pools, caches.
struct Figure {
  std::string name, help;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
  bool counter = false;
};

/// A device. Members may be called by several threads.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual Capabilities capabilities() const = 0;
  /// Uploads, runs, waits and reads back. Outputs are written only if all of it succeeded.
  ///
  /// Throws Error{DeviceLost, OutOfDeviceMemory, OutOfHostMemory, Timeout, ShaderCompile,
  /// Unsupported}.
  virtual RunReport run(const DeviceProgram& program) = 0;
  /// Compiles and allocates what run() will need. Throws as run().
  virtual void prepare(const DeviceProgram& program) = 0;
  /// Inputs with a key stay, up to this many bytes in all, the least recently used leaving first
  /// (HybridOptions::resident_limit, by Executor::add_device()).
  virtual void limit_resident(std::uint64_t /*bytes*/) {}
  /// Bytes of the program's inputs that are there.
  virtual std::uint64_t resident(const DeviceProgram& /*program*/) const { return 0; }
  /// Bytes that a task could take now: what others and this process hold is not among them, inputs
  /// that would leave for it are. Nothing where that is not known.
  virtual std::optional<std::uint64_t> free_bytes() const { return std::nullopt; }
  /// Pools and caches, for telemetry.
  virtual std::vector<Figure> figures() const { return {}; }
  /// After a loss: a new device in the old one's place. Throws as run() if there is none.
  virtual void reopen() = 0;
};

/// The device that is never there: for tests and as a stand-in for what could not be opened.
std::unique_ptr<DeviceBackend> make_unavailable_backend(std::string name, std::string problem);

/// A device of the system as run() failed on it, rather than the caller's mistake: the CPU can take
/// over.
bool is_device_failure(ErrorCode code);

}  // namespace topograd::runtime::hybrid
