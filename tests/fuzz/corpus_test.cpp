// Runs every input of the corpus, seeds and findings, through its target.
#include "../support/paths.hpp"
#include "target.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

std::vector<std::filesystem::path> inputs_of(const std::string& target) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() / "tests/fuzz/corpus" / target))
    found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

TEST(FuzzCorpus, EveryInputIsReadOrRefused) {
  for (const fuzz::Target& target : fuzz::targets()) {
    const auto inputs = inputs_of(target.name);
    EXPECT_GE(inputs.size(), 2u) << target.name;
    for (const auto& input : inputs) {
      SCOPED_TRACE(input.string());
      EXPECT_NO_THROW(target.run(read_file(input)));
    }
  }
}

// Inputs of this form are too large for the corpus: parsers must not recurse to this depth.
TEST(FuzzCorpus, DepthIsRefused) {
  constexpr std::size_t kDepth = 200'000;
  const auto nested = [](const std::string& open, const std::string& inner,
                         const std::string& close) {
    std::string text;
    for (std::size_t k = 0; k < kDepth; ++k) text += open;
    text += inner;
    for (std::size_t k = 0; k < kDepth; ++k) text += close;
    return text;
  };
  const std::string lists = nested("[", "", "]");
  const std::string texts[] = {
      lists,
      nested(R"({"a":)", "1", "}"),
      nested("(", "a[0]", ")"),
      R"({"format":1,"kernels":[{"hash":"00000000000000000000000000000000","operation":"map",)"
      R"("targets":{"cpu":)" +
          lists + R"(}}],"transfers":{},"thresholds":{},"training":{}})",
      R"({"force":)" + lists + "}",
      R"({"batches":)" + lists + "}",
      R"({"parameters":[{"name":"a","values":[1]}],"residuals":[{"expressions":["a"],)"
      R"("parameters":["a"],"loss":)" +
          nested(R"({"scaled":[)", R"("trivial")", ",1]}") + "}]}"};
  for (const fuzz::Target& target : fuzz::targets()) {
    for (const std::string& text : texts) {
      SCOPED_TRACE(std::string(target.name) + " " + text.substr(0, 60));
      EXPECT_NO_THROW(target.run(text));
    }
  }
}

}  // namespace
}  // namespace topograd::test
