// Common code of the samples: arguments, output files, and error messages of one line.
#pragma once

#include <topograd/ops/backend/device.hpp>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace sample {

/// The arguments of a sample, read one after the other. Their names in messages and their number
/// come from the usage: "cloth [OUT.obj] [VERTICES] [FRAMES]". Names in brackets are optional, and
/// a last name that ends in "..." may be repeated.
///
/// Unexpected arguments, and words that begin with "--", throw topograd::Error{InvalidArgument}.
class Arguments {
 public:
  Arguments(std::string usage, std::vector<std::string> words);

  bool more() const { return next_ < words_.size(); }
  /// True if there is a next argument and it looks like an integer.
  bool is_number() const {
    return words_[next_].find_first_not_of("-0123456789") == std::string::npos;
  }
  std::string text(const std::string& otherwise = "");
  /// One of these; the first if it is omitted.
  std::string choice(std::initializer_list<std::string_view> choices);
  /// best, cpu or vulkan.
  topograd::ops::Device device();
  /// The path of a file that can be read.
  std::string file(const std::string& otherwise = "");

  /// An integer from `least` to `most`.
  template <class T>
  T count(T otherwise, T least = 1, T most = kMost<T>) {
    return static_cast<T>(number(static_cast<std::int64_t>(otherwise),
                                 static_cast<std::int64_t>(least),
                                 static_cast<std::int64_t>(most)));
  }

 private:
  template <class T>
  static constexpr T kMost = sizeof(T) < 4 ? std::numeric_limits<T>::max() : T{1'000'000'000};

  std::int64_t number(std::int64_t otherwise, std::int64_t least, std::int64_t most);
  [[noreturn]] void refuse(const std::string& expected) const;

  std::string usage_;
  std::vector<std::string> names_;  // with their brackets
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

/// Runs a sample. With --help or -h it prints the usage alone. Prints an exception as one line on
/// standard error and returns exit status 2.
int run(int argc, char** argv, const char* usage, int (*program)(Arguments& arguments));

/// Throw topograd::Error{File}.
[[noreturn]] void fail_to_read(const std::string& path);
[[noreturn]] void fail_to_write(const std::string& path);
/// Writes a complete file, under a temporary name first. Throws topograd::Error{File}.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace sample
