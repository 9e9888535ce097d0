// Packed text: damaged files are refused, and what was packed is read as it was.
#include "target.hpp"

#include "../support/paths.hpp"

#include "../../api/formats/packed_text.hpp"

#include <zlib.h>

#include <cstdio>
#include <memory>
#include <string>

namespace topograd::fuzz {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 22;

void write(const std::string& path, std::string_view bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"),
                                                             std::fclose);
  require(file && std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size(),
          "a temporary file that cannot be written");
}

/// Two members, as `cat a.gz b.gz` makes them.
void pack(const std::string& path, std::string_view text) {
  const std::size_t half = text.size() / 2;
  for (const std::string_view part : {text.substr(0, half), text.substr(half)}) {
    gzFile file = gzopen(path.c_str(), part.data() == text.data() ? "wb1" : "ab9");
    require(file != nullptr, "a temporary file that cannot be packed");
    const auto size = static_cast<unsigned>(part.size());
    require(size == 0 || gzwrite(file, part.data(), size) == static_cast<int>(size),
            "text that cannot be packed");
    require(gzclose(file) == Z_OK, "a packed file that cannot be closed");
  }
}

}  // namespace

void packed_text(std::string_view input) {
  static const test::TemporaryDir folder;
  static const std::string path = (folder.path() / "file").string();
  write(path, input);
  const bool packed = input.starts_with("\x1f\x8b") || input.starts_with("BZh");
  std::string text;
  if (reads([&] { text = read_packed_text(path, kMost); }, {ErrorCode::File})) {
    require(text.size() <= kMost, "a text that is longer than its limit");
    require(packed || text == input, "a plain text that is not read as it is");
  } else {
    require(packed, "a plain text that is refused");
  }
  pack(path, input);
  require(read_packed_text(path, kMost) == input, "a packed text that is not read as it was");
}

}  // namespace topograd::fuzz
