// `topograd solve --distributed` where each rank makes a share of the residuals, against one
// process.
#include "../../api/formats/bal.hpp"
#include "../../tools/problems/bundle.hpp"
#include "../support/paths.hpp"

#include "launch.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

namespace topograd::test {
namespace {

using nlohmann::json;

/// Runs the command; returns its report. `arguments` may have {out} for a file in `folder`.
json report_of(const std::string& launcher, std::string arguments, const std::string& more,
               const std::filesystem::path& folder) {
  const std::string out = folder / "out.json", err = folder / "err";
  for (std::size_t at = arguments.find("{}"); at != std::string::npos; at = arguments.find("{}"))
    arguments.replace(at, 2, folder.string());
  const std::string command = launcher + (program_dir() / "topograd").string() + " solve " +
                              arguments + " --linear pcg --preconditioner block_jacobi " + more +
                              " --max-iterations 5 --json " + out + " >/dev/null 2>" + err;
  EXPECT_EQ(std::system(command.c_str()), 0) << command << "\n" << read_file(err);
  return json::parse(read_file(out));
}

/// Removes what differs between runs, and between one process and several.
void keep_figures(json& report) {
  static const std::set<std::string> kOthers = {
      "device",         "why",          "plan", "distributed", "linear_solver_note",
      "kernels_on_cpu", "deterministic"};
  if (report.is_array())
    for (json& element : report) keep_figures(element);
  if (!report.is_object()) return;
  for (auto at = report.begin(); at != report.end();) {
    const std::string& key = at.key();
    if (kOthers.contains(key) || key.ends_with("_s") || key.ends_with("_ms")) {
      at = report.erase(at);
    } else {
      keep_figures(*at++);
    }
  }
}

class ShareCommand : public testing::TestWithParam<std::pair<std::string, std::string>> {};

// All figures of the report, with residuals that are named, and all bytes of files.
TEST_P(ShareCommand, HasTheReportAndFilesOfOneProcess) {
  const TemporaryDir folder;
  for (const char* name : {"one", "several"})
    std::filesystem::create_directory(folder.path() / name);
  const auto scene =
      problems::bundle({.cameras = 6, .points = 60, .observations = 300, .noise = 0.5, .seed = 2});
  for (const char* name : {"one", "several"})
    write_scene(folder.path() / name / "scene.txt", *scene);
  json one =
      report_of("", GetParam().second, "--deterministic --backend cpu", folder.path() / "one");
  json several = report_of(mpirun(most_ranks()), GetParam().second, "--distributed",
                           folder.path() / "several");
  EXPECT_EQ(several["distributed"]["ranks"], most_ranks());
  EXPECT_EQ(several["distributed"]["residuals"], "share");
  keep_figures(one);
  keep_figures(several);
  EXPECT_GT(one["residuals"], 0);
  EXPECT_EQ(json::diff(one, several), json::array());
  for (const char* file : {"out.txt", "out.ply", "out.obj"}) {
    const std::filesystem::path expected = folder.path() / "one" / file;
    if (!std::filesystem::exists(expected)) continue;
    EXPECT_GT(std::filesystem::file_size(expected), 0U);
    EXPECT_TRUE(read_file(folder.path() / "several" / file) == read_file(expected)) << file;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path() / "several"), {}),
            std::distance(std::filesystem::directory_iterator(folder.path() / "one"), {}));
}

INSTANTIATE_TEST_SUITE_P(
    All, ShareCommand,
    testing::Values(
        std::pair{"springs", "springs --width 20"},
        std::pair{"springs_shuffled", "springs --width 20 --shuffle 3"},
        std::pair{"bundle", "bundle --cameras 6 --points 60 --observations 300 --noise 0.5"},
        std::pair{"arap", "arap --icosphere 2 --out {}/out.obj"},
        std::pair{"bal", "bal {}/scene.txt --loss huber:1 --out {}/out.txt"},
        std::pair{"bal_ply", "bal {}/scene.txt --normalize --fix k2=0 --out {}/out.ply"}),
    [](const auto& of) { return of.param.first; });

TEST(Shares, TheManualsExampleRuns) {
  const TemporaryDir folder;
  const std::string out = folder.path() / "out";
  const std::string command =
      mpirun(2) + (program_dir() / "tests/test_distributed_chain_shares").string() + " >" + out;
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string text = read_file(out);
  EXPECT_NE(text.find("CONVERGENCE"), std::string::npos) << text;
  EXPECT_NE(text.find("\n   1 "), std::string::npos) << text;
}

}  // namespace
}  // namespace topograd::test
