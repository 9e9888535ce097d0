// Reads and writes OBJ files; every line is checked.
//
// OpenMesh, which the samples use, stores OBJ coordinates as float and drops faces that are not
// manifold; both would change the problems solved here.
#include "mesh_file.hpp"

#include "../arguments/output.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace topograd::command {
namespace {

[[noreturn]] void fail(const std::string& path, std::size_t line, const std::string& what) {
  throw Error(ErrorCode::Parse, path + ":" + std::to_string(line) + ": " + what);
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size();) {
    at = line.find_first_not_of(" \t\r", at);
    if (at == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

/// Parses a complete word as a number; returns false if it is none.
template <class T>
bool read_number(std::string_view word, T& value) {
  if (word.starts_with('+')) word.remove_prefix(1);
  const auto [at, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  return status == std::errc() && at == word.data() + word.size();
}

/// Reads the next line without its comment; returns false at the end.
bool next_line(std::istream& lines, std::string& line) {
  if (!std::getline(lines, line)) return false;
  line.resize(std::min(line.find('#'), line.size()));
  return true;
}

/// Removes the backslash that continues a record on the next line.
bool take_continuation(std::string& record) {
  const std::size_t last = record.find_last_not_of(" \t\r");
  if (last == std::string::npos || record[last] != '\\') return false;
  record[last] = ' ';
  return true;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  problems::TriangleMesh read(const std::string& text) {
    if (text.find('\0') != std::string::npos)
      fail(path_, 1, "expected an OBJ file, got binary data");
    constexpr std::string_view kMark = "\xef\xbb\xbf";  // UTF-8 byte order mark
    std::istringstream lines(text.starts_with(kMark) ? text.substr(kMark.size()) : text);
    for (std::string text_of_record; next_record(lines, text_of_record);) {
      const auto words = words_of(text_of_record);
      if (!words.empty()) record(words);
    }
    if (text.empty()) fail(path_, 1, "the file is empty");
    if (mesh_.triangles.empty()) fail(path_, line_, "expected faces, got none");
    check_forward_references();
    return std::move(mesh_);
  }

 private:
  /// Afterwards `line_` is the number of its first line.
  bool next_record(std::istream& lines, std::string& record) {
    if (!next_line(lines, record)) return false;
    line_ = ++lines_read_;
    for (std::string more; take_continuation(record) && next_line(lines, more); ++lines_read_)
      record += more;
    return true;
  }

  void record(const std::vector<std::string_view>& words) {
    static constexpr std::array kIgnored = {"vn", "vt", "vp", "o",      "g",
                                            "s",  "l",  "p",  "usemtl", "mtllib"};
    if (words[0] == "v") return vertex(words);
    if (words[0] == "f") return face(words);
    if (std::find(kIgnored.begin(), kIgnored.end(), words[0]) != kIgnored.end()) return;
    fail(path_, line_,
         "expected an OBJ record, got \"" + std::string(words[0].substr(0, 40)) + "\"");
  }

  void vertex(const std::vector<std::string_view>& words) {
    if (words.size() < 4) {
      fail(path_, line_,
           "expected three coordinates after \"v\", got " + std::to_string(words.size() - 1));
    }
    for (std::size_t k = 1; k <= 3; ++k) {
      double value = 0;
      if (!read_number(words[k], value) || !std::isfinite(value)) {
        fail(path_, line_, "expected a finite coordinate, got \"" + std::string(words[k]) + "\"");
      }
      mesh_.positions.push_back(value);
    }
  }

  void face(const std::vector<std::string_view>& words) {
    if (words.size() < 4) {
      fail(path_, line_,
           "expected a face of at least three corners, got " + std::to_string(words.size() - 1));
    }
    const std::uint32_t first = corner(words[1]);
    std::uint32_t previous = corner(words[2]);
    for (std::size_t k = 3; k < words.size(); ++k) {
      const std::uint32_t next = corner(words[k]);
      mesh_.triangles.push_back({first, previous, next});
      triangle_lines_.push_back(line_);
      previous = next;
    }
  }

  /// Vertex of a corner "v", "v/vt", "v//vn" or "v/vt/vn"; negative numbers count backwards from
  /// the latest vertex.
  std::uint32_t corner(std::string_view word) {
    long long number = 0;
    if (!read_number(word.substr(0, word.find('/')), number)) {
      fail(path_, line_, "expected a vertex number in a face, got \"" + std::string(word) + "\"");
    }
    const auto count = static_cast<long long>(mesh_.vertex_count());
    if (number < 0 && number >= -count) number = count + number + 1;
    if (number <= 0 || number > kMostVertices) out_of_range(line_, number);
    return static_cast<std::uint32_t>(number - 1);
  }

  /// Checked at the end, because a face may come before its vertices.
  void check_forward_references() const {
    for (std::size_t t = 0; t < mesh_.triangles.size(); ++t) {
      for (std::uint32_t v : mesh_.triangles[t]) {
        if (v >= mesh_.vertex_count())
          out_of_range(triangle_lines_[t], static_cast<long long>(v) + 1);
      }
    }
  }

  [[noreturn]] void out_of_range(std::size_t line, long long number) const {
    fail(path_, line,
         "expected a vertex number from 1 to " + std::to_string(mesh_.vertex_count()) + ", got " +
             std::to_string(number));
  }

  static constexpr long long kMostVertices = 0xffffffffLL;

  const std::string& path_;
  std::size_t line_ = 0, lines_read_ = 0;
  problems::TriangleMesh mesh_;
  std::vector<std::size_t> triangle_lines_;
};

}  // namespace

problems::TriangleMesh parse_mesh(const std::string& text, const std::string& name) {
  return Reader(name).read(text);
}

problems::TriangleMesh read_mesh(const std::string& path) {
  return parse_mesh(read_text(path), path);
}

void write_mesh(const std::string& path, const problems::TriangleMesh& mesh) {
  std::string text;
  std::array<char, 32> digits{};
  for (std::size_t v = 0; v < mesh.vertex_count(); ++v) {
    text += 'v';
    for (std::size_t k = 0; k < 3; ++k) {
      const auto end =
          std::to_chars(digits.data(), digits.data() + digits.size(), mesh.positions[3 * v + k]);
      text.append(" ").append(digits.data(), end.ptr);
    }
    text += '\n';
  }
  for (const auto& t : mesh.triangles) {
    text += "f " + std::to_string(t[0] + 1) + ' ' + std::to_string(t[1] + 1) + ' ' +
            std::to_string(t[2] + 1) + '\n';
  }
  write_text(path, text);
}

}  // namespace topograd::command
