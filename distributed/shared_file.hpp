// Files that all ranks write together.
#pragma once

#include "communicator.hpp"

#include <span>
#include <string>

namespace topograd::distributed {

/// Writes a file of the texts of all ranks by MPI-IO: the first text of each rank in the order of
/// the ranks, then the second ones, and so on. The bytes are written under a temporary name, which
/// replaces the file once they are on the disk, links followed. What is no regular file (a pipe, a
/// device) is written by rank 0, to which the others send their texts. Collective.
///
///   texts  as many on every rank
///
/// Returns the reason why it failed, or "", on all ranks alike; the old contents are kept then.
std::string replace_shared_file(const Communicator& ranks, const std::string& path,
                                std::span<const std::string> texts);

/// The same; throws Error{File} instead.
void write_shared_file(const Communicator& ranks, const std::string& path,
                       std::span<const std::string> texts);

}  // namespace topograd::distributed
