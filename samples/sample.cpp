// Common code of the samples: arguments, output files, and error messages of one line.
#include "sample.hpp"

#include <topograd/ir/error.hpp>
#include <topograd/ir/machine/platform.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <new>
#include <span>
#include <sstream>

namespace sample {

using topograd::Error;
using topograd::ErrorCode;

/// The system's last error message, if there is one.
static std::string reason() { return errno == 0 ? "" : std::string(": ") + std::strerror(errno); }

Arguments::Arguments(std::string usage, std::vector<std::string> words)
    : usage_(std::move(usage)), words_(std::move(words)) {
  std::istringstream split(usage_);
  std::string name;
  for (split >> name; split >> name;) names_.push_back(name);
  const auto required = static_cast<std::size_t>(
      std::ranges::count_if(names_, [](const std::string& n) { return !n.starts_with('['); }));
  for (const std::string& word : words_) {
    if (word.starts_with("--"))
      throw Error(ErrorCode::InvalidArgument,
                  "expected arguments without options, got \"" + word + "\"; usage: " + usage_);
  }
  const bool repeats = !names_.empty() && names_.back().find("...") != std::string::npos;
  const std::size_t most = repeats ? words_.size() : names_.size();
  if (words_.size() >= required && words_.size() <= most) return;
  const bool few = words_.size() < required;
  throw Error(ErrorCode::InvalidArgument, std::string("expected at ") + (few ? "least " : "most ") +
                                              std::to_string(few ? required : most) +
                                              " arguments, got " + std::to_string(words_.size()) +
                                              "; usage: " + usage_);
}

void Arguments::refuse(const std::string& expected) const {
  std::string name = names_[std::min(next_, names_.size()) - 1];  // of the last argument read
  std::erase_if(name, [](char c) { return c == '[' || c == ']' || c == '.'; });
  throw Error(ErrorCode::InvalidArgument, "expected " + expected + " for " + name + ", got \"" +
                                              words_[next_ - 1] + "\"; usage: " + usage_);
}

std::string Arguments::text(const std::string& otherwise) {
  return more() ? words_[next_++] : otherwise;
}

std::string Arguments::choice(std::initializer_list<std::string_view> choices) {
  if (!more()) return std::string(*choices.begin());
  std::string word = text();
  if (std::ranges::find(choices, word) != choices.end()) return word;
  std::string all;
  for (const std::string_view one : choices) all.append(all.empty() ? "" : ", ").append(one);
  refuse("one of " + all);
}

topograd::ops::Device Arguments::device() {
  using topograd::ops::Device;
  const std::string word = choice({"best", "cpu", "vulkan"});
  return word == "cpu" ? Device::cpu() : word == "vulkan" ? Device::vulkan() : Device::best();
}

std::string Arguments::file(const std::string& otherwise) {
  std::string path = text(otherwise);
  errno = 0;
  std::ifstream file(path);
  file.peek();  // folders can be opened, but not read
  if (!file && !file.eof()) fail_to_read(path);
  errno = 0;
  return path;
}

std::int64_t Arguments::number(std::int64_t otherwise, std::int64_t least, std::int64_t most) {
  if (!more()) return otherwise;
  std::string word = text();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc() && end == word.data() + word.size() && value >= least && value <= most)
    return value;
  refuse("a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

int run(int argc, char** argv, const char* usage, int (*program)(Arguments& arguments)) {
  std::string what;
  for (int k = 1; k < argc; ++k) {
    const std::string_view word = argv[k];
    if (word != "--help" && word != "-h") continue;
    std::printf("usage: %s\n", usage);
    return 0;
  }
  try {
    Arguments arguments(usage, {argv + std::min(argc, 1), argv + argc});
    return program(arguments);
  } catch (const std::bad_alloc&) {
    what = "not enough memory";
  } catch (const std::exception& error) {
    what = error.what();
  }
  const std::string name(usage, std::strcspn(usage, " "));
  std::fprintf(stderr, "%s: %s\n", name.c_str(), what.c_str());
  return 2;
}

void fail_to_read(const std::string& path) {
  throw Error(ErrorCode::File, "cannot read " + path + reason());
}

void fail_to_write(const std::string& path) {
  throw Error(ErrorCode::File, "cannot write " + path + reason());
}

void write_file(const std::string& path, std::string_view bytes) {
  errno = 0;
  if (!topograd::platform::write_output_file(path, std::as_bytes(std::span(bytes))))
    fail_to_write(path);
}

}  // namespace sample
