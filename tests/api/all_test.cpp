// <topograd/all.hpp> alone is enough for all parts, and <topograd/topograd.hpp> names the others.
#include <gtest/gtest.h>

#include "../../api/all.hpp"

#include "../support/paths.hpp"

#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace tg = topograd;

namespace {

using topograd::test::read_file;
using topograd::test::source_dir;

TEST(All, HasEveryPart) {
  std::vector<double> x = {3};
  tg::Problem problem;
  problem.add_residual(problem.add_parameters(x)[0] - 1.0);
  EXPECT_LT(tg::solve(problem, {.backend = tg::Backend::cpu}).final_cost, 1e-12);

  tg::hybrid::Executor executor(tg::hybrid::HybridOptions{});
  tg::hybrid::Batch<int> batch;
  batch.add(7, 20);
  EXPECT_EQ(batch.run(executor, [](int v) { return v + 1; })[0].value, 21);

  EXPECT_EQ(tg::ops::sum(tg::ops::Array<float>{1, 2, 3}).item(), 6);
  const tg::ops::nn::Sequential net{tg::ops::relu};
  EXPECT_EQ(net(tg::ops::tensor({-1, 2}, {2})).values(), (std::vector<double>{0, 2}));
}

/// Headers named in comments of one of api/, as users spell them: <topograd/...>.
std::set<std::string> mentioned(const std::string& header) {
  const std::string text = read_file(source_dir() / "api" / header);
  const std::regex pattern("// *<(topograd/[a-z_/]*\\.hpp)>");
  std::set<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    out.insert((*it)[1]);
  return out;
}

/// Headers that a header of api/ includes, spelled the same way.
std::set<std::string> included(const std::string& header) {
  const std::string text = read_file(source_dir() / "api" / header);
  const std::regex pattern("#include *\"([a-z_/.]*\\.hpp)\"");
  std::set<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    const std::filesystem::path path = std::filesystem::path("topograd/api") / (*it)[1].str();
    out.insert(path.lexically_normal().generic_string());
  }
  return out;
}

TEST(All, TopogradNamesTheOthers) {
  std::set<std::string> others = mentioned("topograd.hpp");
  for (const std::string& name : others) {
    const std::string file = name.substr(std::string("topograd/").size());
    const bool front = file.find('/') == std::string::npos;
    EXPECT_TRUE(std::filesystem::exists(source_dir() / (front ? "api/" + file : file))) << name;
  }
  EXPECT_EQ(others.erase("topograd/all.hpp"), 1u);
  EXPECT_EQ(others.erase("topograd/ceres.hpp"), 1u);
  std::set<std::string> all = included("all.hpp");
  EXPECT_EQ(all.erase("topograd/api/topograd.hpp"), 1u);
  EXPECT_EQ(all, others);
  // Its own parts are not named, and the named headers are not included.
  for (const std::string& name : included("topograd.hpp")) EXPECT_FALSE(all.contains(name)) << name;
}

}  // namespace
