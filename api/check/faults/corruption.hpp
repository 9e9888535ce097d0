// Self-test of what is kept on disk: damaged files are cold starts and counters, never errors.
#pragma once

#include "../../../solver/options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace topograd::check {

struct CorruptionOptions {
  /// cpu: the hybrid executor's model, all that the CPU keeps on disk. vulkan: the blob cache, with
  /// shaders, pipelines and tuning records. Otherwise both.
  std::optional<Backend> backend;
  double seconds = 0;  ///< rounds are repeated until then, with other bits and places; 0: one round
};

struct CorruptionReport {
  std::uint64_t rounds = 0;
  std::uint64_t injections = 0;   ///< files that were damaged, and folders that were of no use
  std::uint64_t cold_starts = 0;  ///< of them: noticed, counted, and started without
  std::uint64_t wrong = 0;        ///< damaged contents that were taken
  std::uint64_t uncounted = 0;    ///< noticed, but no counter moved
  std::uint64_t errors = 0;       ///< exceptions
  std::uint64_t reads_beside_writers = 0;  ///< of two writers' files; each was whole, else `wrong`
  std::uint64_t writes_on_full_disk = 0;   ///< over a file, which stayed whole, else `wrong`
  std::vector<std::string> failures;       ///< what was done, of the first of them

  bool broken() const { return wrong + uncounted + errors > 0; }
};

/// Damages a file of the blob cache and one of the hybrid executor's model, in a folder of its own
/// that is removed afterwards: each byte of the header and bytes throughout the contents flipped,
/// cut off everywhere there, longer, of another version, device or kind, in folders that are no
/// folder or that everybody may write, or on a disk that is full; then two writers at once, read
/// meanwhile.
///
/// Throws Error{File} if there is no folder for temporary files, Error{InvalidArgument}.
CorruptionReport check_corruption(const CorruptionOptions& options = {});

}  // namespace topograd::check
