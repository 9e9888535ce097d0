// Unpacking by zlib and libbz2.
#include "packed_text.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/platform.hpp"

#include <bzlib.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::File, path + ": " + what);
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
  void operator()(gzFile_s* file) const { gzclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

File open(const std::string& path) {
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) fail(path, "expected a file, got a folder");
  File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail(path, std::string("cannot be read: ") + std::strerror(errno));
  return file;
}

/// Appends `read(buffer, capacity)` to the text until it gives 0 bytes.
template <class Read>
std::string read_all(const std::string& path, std::uint64_t most_bytes, Read read) {
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    const std::size_t count = read(text.data() + before, kPiece);
    text.resize(before + count);
    if (count == 0) return text;
    if (text.size() > most_bytes)
      fail(path, "the text is longer than " + std::to_string(most_bytes) + " bytes");
  }
}

std::string read_plain(const std::string& path, std::FILE* file, std::uint64_t most_bytes) {
  return read_all(path, most_bytes, [&](char* to, std::size_t capacity) {
    const std::size_t count = std::fread(to, 1, capacity, file);
    if (count == 0 && std::ferror(file)) fail(path, "cannot be read");
    return count;
  });
}

std::string read_gzip(const std::string& path, std::uint64_t most_bytes) {
  const std::unique_ptr<gzFile_s, Close> file(gzopen(path.c_str(), "rb"));
  if (!file) fail(path, "cannot be read");
  return read_all(path, most_bytes, [&](char* to, std::size_t capacity) {
    const int count = gzread(file.get(), to, static_cast<unsigned>(capacity));
    int status = Z_OK;
    gzerror(file.get(), &status);
    if (count < 0 || (count == 0 && status != Z_OK && status != Z_STREAM_END))
      fail(path, "the gzip data are damaged or end too early");
    return static_cast<std::size_t>(count);
  });
}

/// One stream after another: bzip2 files may be concatenated.
class BzipReader {
 public:
  BzipReader(const std::string& path, std::FILE* file) : path_(path), file_(file) { begin({}); }
  ~BzipReader() { end(); }
  BzipReader(const BzipReader&) = delete;
  BzipReader& operator=(const BzipReader&) = delete;

  std::size_t read(char* to, std::size_t capacity) {
    while (!ended_) {
      int status = BZ_OK;
      const int count = BZ2_bzRead(&status, stream_, to, static_cast<int>(capacity));
      if (status == BZ_OK) return static_cast<std::size_t>(count);
      if (status != BZ_STREAM_END) fail(path_, "the bzip2 data are damaged or end too early");
      go_on();
      if (count > 0) return static_cast<std::size_t>(count);
    }
    return 0;
  }

 private:
  void begin(std::vector<char> unused) {
    int status = BZ_OK;
    stream_ = BZ2_bzReadOpen(&status, file_, 0, 0, unused.data(), static_cast<int>(unused.size()));
    if (status != BZ_OK) fail(path_, "cannot be unpacked");
  }
  void end() {
    int status = BZ_OK;
    if (stream_ != nullptr) BZ2_bzReadClose(&status, stream_);
    stream_ = nullptr;
  }
  /// Begins with the next stream, or ends with the file.
  void go_on() {
    int status = BZ_OK, count = 0;
    void* unused = nullptr;
    BZ2_bzReadGetUnused(&status, stream_, &unused, &count);
    const char* first = static_cast<const char*>(unused);
    std::vector<char> kept(first, first + (status == BZ_OK ? count : 0));
    if (kept.empty()) {
      const int next = std::fgetc(file_);
      ended_ = next == EOF;
      if (ended_) return;
      std::ungetc(next, file_);
    }
    end();
    begin(std::move(kept));
  }

  const std::string& path_;
  std::FILE* file_;
  BZFILE* stream_ = nullptr;
  bool ended_ = false;
};

std::string read_bzip(const std::string& path, std::FILE* file, std::uint64_t most_bytes) {
  BzipReader reader(path, file);
  bool at_end = false;
  return read_all(path, most_bytes, [&](char* to, std::size_t capacity) -> std::size_t {
    if (at_end) return 0;
    const std::size_t count = reader.read(to, capacity);
    at_end = count == 0;
    return count;
  });
}

}  // namespace

std::string read_packed_text(const std::string& path, std::uint64_t most_bytes) {
  const File file = open(path);
  std::array<char, 3> first{};
  const std::size_t count = std::fread(first.data(), 1, first.size(), file.get());
  const std::string_view magic(first.data(), count);
  std::error_code failed;
  const std::uintmax_t size = std::filesystem::file_size(path, failed);
  const std::uint64_t unpacked =
      std::min(most_bytes, std::max(kLeastUnpackedBytes, failed ? 0 : kMostUnpackedRatio * size));
  const bool gzip = magic.starts_with("\x1f\x8b"), bzip = magic == "BZh";
  if (std::fseek(file.get(), 0, SEEK_SET) != 0) {  // a pipe is read once
    if (gzip || bzip) fail(path, "expected plain text from a pipe, got packed text");
    return std::string(magic) + read_plain(path, file.get(), most_bytes);
  }
  if (gzip) return read_gzip(path, unpacked);
  if (bzip) return read_bzip(path, file.get(), unpacked);
  return read_plain(path, file.get(), most_bytes);
}

std::size_t text_begin(std::string_view text, const std::string& name) {
  const auto byte = [&](std::size_t k) { return k < text.size() ? text[k] : ' '; };
  const auto letters = [&](std::size_t k) { return byte(k) != 0 && byte(k + 2) != 0; };
  const auto zeros = [&](std::size_t k) { return byte(k) == 0 && byte(k + 2) == 0; };
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") || (letters(0) && zeros(1)) ||
      (zeros(0) && letters(1)))
    throw Error(ErrorCode::Parse,
                name + ":1: expected text in UTF-8, got UTF-16; save the file as UTF-8");
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? kMark.size() : 0;
}

void write_text_file(const std::string& path, const std::string& text) {
  if (!platform::write_output_file(path, std::as_bytes(std::span(text))))
    fail(path, "cannot be written");
}

}  // namespace topograd
