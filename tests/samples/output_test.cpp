// The output of samples in the manual is what they print.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "../support/manual.hpp"
#include "../support/paths.hpp"

namespace topograd::test {
namespace {

std::string output_of(const std::string& sample) {
  const TemporaryDir folder;
  const std::filesystem::path out = folder.path() / "out";
  const std::string line = "TOPOGRAD_BACKEND=cpu \"" +
                           (program_dir() / "samples" / sample).string() + "\" > \"" +
                           out.string() + "\"";
  EXPECT_EQ(std::system(line.c_str()), 0) << line;
  return read_file(out);
}

/// True if two lines have the same words, and numbers that agree to 1 in 10,000. Numbers below
/// 1e-20 are rounding and count as equal.
bool agree(const std::string& a, const std::string& b) {
  static const std::regex number(R"(-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?)");
  if (std::regex_replace(a, number, "#") != std::regex_replace(b, number, "#")) return false;
  std::sregex_iterator x(a.begin(), a.end(), number), y(b.begin(), b.end(), number);
  for (const std::sregex_iterator end; x != end && y != end; ++x, ++y) {
    const double p = std::stod(x->str()), q = std::stod(y->str());
    if (std::abs(p - q) > 1e-4 * std::abs(p) + 1e-20) return false;
  }
  return true;
}

/// Every block below `<!-- output of samples/NAME.cpp -->`.
TEST(ManualOutputs, AreWhatTheSamplesPrint) {
  const std::regex origin(R"(^output of samples/(\w+)\.cpp$)");
  int blocks = 0;
  for (const Page& page : manual_pages()) {
    for (const Block& block : blocks_of(page.text)) {
      std::smatch part;
      if (!std::regex_match(block.origin, part, origin)) continue;
      ++blocks;
      const std::string out = output_of(part[1]);
      for (const std::string_view shown : lines_of(block.text)) {
        const auto same = [&](std::string_view line) {
          return agree(std::string(shown), std::string(line));
        };
        EXPECT_TRUE(std::ranges::any_of(lines_of(out), same))
            << page.path << ": " << shown << "\nis not in the output of " << part[1] << ":\n"
            << out;
      }
    }
  }
  EXPECT_GE(blocks, 3);
}

TEST(ManualOutputs, CheckCanFail) {
  EXPECT_TRUE(agree("cost 2.67e-27, radius 3", "cost 9e-26, radius 3.00001"));
  EXPECT_FALSE(agree("radius 3", "radius 3.1"));
  EXPECT_FALSE(agree("radius 3", "width 3"));
}

}  // namespace
}  // namespace topograd::test
