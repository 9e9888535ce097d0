// The engine that hands every call on has a declaration for each.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "../support/paths.hpp"

namespace topograd::test {
namespace {

/// Names and parameters' types of the declarations that `pattern` finds, one line each.
std::multiset<std::string> declarations(const std::string& text, const std::string& pattern) {
  std::multiset<std::string> found;
  const std::regex declaration(pattern), comment("/\\*\\w+\\*/"), space("\\s+"),
      parameter("\\s*\\w+\\s*(,|$)");
  for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) {
    // /*kind*/ in place of a name is a name as well.
    std::string parameters = std::regex_replace((*it)[2].str(), std::regex("/\\*|\\*/"), "");
    parameters = std::regex_replace(parameters, space, " ");
    found.insert((*it)[1].str() + "(" + std::regex_replace(parameters, parameter, "$1") + ")");
  }
  return found;
}

TEST(ForwardingEngine, HandsOnEveryCall) {
  const std::string engine = read_file(source_dir() / "runtime/engine/engine.hpp");
  const std::string forwarding = read_file(source_dir() / "runtime/engine/forwarding_engine.hpp");
  const std::size_t begin = engine.find("class Engine {");
  ASSERT_NE(begin, engine.npos);
  const auto expected = declarations(engine.substr(begin), "virtual [^;~(]*?(\\w+)\\(([^)]*)\\)");
  const auto actual = declarations(forwarding, "(\\w+)\\(([^)]*)\\)(?: const)? override");
  EXPECT_GT(expected.size(), 30u);
  for (const std::string& call : expected)
    EXPECT_EQ(actual.count(call), expected.count(call)) << call << " is not handed on";
}

}  // namespace
}  // namespace topograd::test
