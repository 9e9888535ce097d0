// Text files, plain or packed by gzip or bzip2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace topograd {

/// Largest text that read_packed_text() reads, unless it is told otherwise: 16 GiB.
inline constexpr std::uint64_t kMostUnpackedBytes = std::uint64_t{16} << 30;
/// Packed text may also be 64 MiB long, or 100 times as long as the file: text of numbers packs to
/// a third or a tenth, and a small file that unpacks to gigabytes is made to fill the memory.
inline constexpr std::uint64_t kLeastUnpackedBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMostUnpackedRatio = 100;

/// The text of a file or of a pipe. It is unpacked if its first bytes are those of gzip or bzip2,
/// whatever the file is called.
///
///   most_bytes  limit of the text
///
/// Throws Error{File} if the file cannot be read, is damaged or is longer than a limit.
/// Cost: linear in the text.
std::string read_packed_text(const std::string& path,
                             std::uint64_t most_bytes = kMostUnpackedBytes);

/// Returns the byte at which a text begins: after the byte order mark of UTF-8, or 0. All readers
/// of text begin there.
///
/// Throws Error{Parse} ("name:1: expected ..., got ...") for text in UTF-16.
std::size_t text_begin(std::string_view text, const std::string& name);

/// Writes text to a file under a temporary name and renames it: readers see the old file or all of
/// the new one. Throws Error{File}.
void write_text_file(const std::string& path, const std::string& text);

}  // namespace topograd
