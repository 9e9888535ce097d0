// Self-test of files on disk: damaged files are counted and cause cold starts, never errors.
#pragma once

#include "../../../solver/options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace topograd::check {

struct CorruptionOptions {
  /// cpu: the hybrid executor's model, the only file that the CPU backend stores. vulkan: the blob
  /// cache, with shaders, pipelines and tuning records. Otherwise both.
  std::optional<Backend> backend;
  double seconds = 0;  ///< time for repeated rounds, with other bits and positions; 0: one round
};

struct CorruptionReport {
  std::uint64_t rounds = 0;
  std::uint64_t injections = 0;  ///< damaged files and unusable folders
  /// Injections that were noticed, counted, and followed by a cold start.
  std::uint64_t cold_starts = 0;
  std::uint64_t wrong = 0;                 ///< damaged contents that were used
  std::uint64_t uncounted = 0;             ///< injections that were noticed but not counted
  std::uint64_t errors = 0;                ///< exceptions
  std::uint64_t reads_beside_writers = 0;  ///< files of two writers; `wrong` counts partial ones
  std::uint64_t writes_on_full_disk = 0;   ///< `wrong` counts files that a write damaged
  std::vector<std::string> failures;       ///< descriptions of the first failures

  bool broken() const { return wrong + uncounted + errors > 0; }
};

/// Damages a file of the blob cache and a file of the hybrid executor's model, in a temporary
/// folder: flips each byte of the header and bytes throughout the contents; truncates the file at
/// each of these positions; appends to it; changes version, device or kind; uses folders that are
/// files or that everybody may write to, and a full disk; then two writers at once, with a reader.
///
/// Throws Error{File} if there is no folder for temporary files, Error{InvalidArgument}.
CorruptionReport check_corruption(const CorruptionOptions& options = {});

}  // namespace topograd::check
