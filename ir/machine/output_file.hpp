// Writing of files that a user named, as a whole.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace topograd::platform {

/// Writes a file. A regular or new file is replaced as by replace_file(), with its own permissions
/// or those of new files; links are followed. Pipes, devices, and files in folders that accept no
/// new files are written in place. Returns false on failure; except when written in place, the old
/// contents are kept then.
bool write_output_file(const std::string& path, std::span<const std::byte> bytes);

/// Replaces a regular or new file as a whole; its bytes are on the disk when it returns. Links are
/// followed. Returns the reason why that failed, or ""; the old contents are kept then.
std::string write_durable_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace topograd::platform
