// The file of a checkpoint: a header with version and checksum, and a state.
#pragma once

#include "../../ir/machine/state_record.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// The state as a file:
///
///   bytes 0–7    "TGCHECK\n"
///   bytes 8–15   version of this format, 1
///   bytes 16–23  number of bytes after the header
///   bytes 24–39  hash of these bytes (runtime/cache/content_hash.hpp)
///   bytes 40–    the state
///
/// Numbers are in little endian.
std::vector<std::byte> seal_checkpoint(std::span<const std::byte> state);
/// The state of a file, to be restored. Throws Error{Parse} if the bytes are not what
/// seal_checkpoint() has made.
ir::StateRecord open_checkpoint(std::span<const std::byte> file);

/// Replaces the file as a whole (platform::write_durable_file()). Returns the reason why it failed,
/// or "".
std::string write_checkpoint(const std::string& path, std::span<const std::byte> state);
/// The bytes of a file. Throws Error{File} that names it.
std::string read_checkpoint_file(const std::string& path);
/// As open_checkpoint() of the file's bytes; errors name the file.
ir::StateRecord open_checkpoint(const std::string& path, const std::string& bytes);

}  // namespace topograd
