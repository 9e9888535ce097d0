// Writing of files that a user named, as a whole.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace topograd::platform {

/// Writes a file. A regular or new file is replaced as by replace_file(), with its own permissions
/// or those of new files; links are followed, also to a file that does not exist yet. Pipes,
/// devices, and files in folders that accept no new files are written in place. Returns false on
/// failure; except when written in place, the old contents are kept then.
bool write_output_file(const std::string& path, std::span<const std::byte> bytes);

/// What write_output_file() would write, for comparisons: equal for two names of one file, also
/// through links. "" for devices, which accept several outputs. "-" is standard output.
std::string output_identity(const std::string& path);

/// True if standard output is a terminal.
bool is_terminal_output();

/// True if write_output_file() can probably write this path. Opens no file.
bool can_write_output(const std::string& path);

/// Replaces a regular or new file as a whole; its bytes are on the disk when it returns. Links are
/// followed. Returns the reason why that failed, or ""; the old contents are kept then.
std::string write_durable_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace topograd::platform
