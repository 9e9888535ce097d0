// Files that a user named, written as a whole.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace topograd::platform {

/// Writes a file. A regular file, or one that is not there yet, is replaced as by replace_file(),
/// with the permissions that it has or that new files get; links are followed. Pipes and devices,
/// and files in folders that take no new ones, are written where they are. False if that fails;
/// what was there stays then, but in the last two cases.
bool write_output_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace topograd::platform
