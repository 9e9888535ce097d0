// Text files, plain or packed by gzip or bzip2.
#pragma once

#include <cstdint>
#include <string>

namespace topograd {

/// Largest text that read_packed_text() unpacks, unless it is told otherwise: 16 GiB.
inline constexpr std::uint64_t kMostUnpackedBytes = std::uint64_t{16} << 30;

/// The text of a file. It is unpacked if its first bytes are those of gzip or bzip2, whatever the
/// file is called.
///
///   most_bytes  limit of the unpacked text: a small file can unpack to more than fits into memory
///
/// Throws Error{File} if the file cannot be read, is damaged or is longer than the limit.
/// Cost: linear in the text.
std::string read_packed_text(const std::string& path,
                             std::uint64_t most_bytes = kMostUnpackedBytes);

/// Writes text to a file under a temporary name and renames it: readers see the old file or all of
/// the new one. Throws Error{File}.
void write_text_file(const std::string& path, const std::string& text);

}  // namespace topograd
