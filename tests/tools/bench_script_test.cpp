// Scripts: scripts/bench in its quick form (every report exists, with its pages), and scripts/site.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace topograd::test {
namespace {

std::size_t occurrences(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(BenchScript, WritesOnePageWithPlots) {
  if (std::system("python3 -c 'pass' 2>/dev/null") != 0) GTEST_SKIP() << "no python3 here";
  const TemporaryDir folder;
  const std::string out = folder.path() / "out", log = folder.path() / "log";
  const std::string command =
      "'" + (source_dir() / "scripts/bench").string() + "' --quick --backends cpu --program '" +
      (program_dir() / "topograd").string() + "' --out '" + out + "' >'" + log + "' 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << read_file(log);
  const nlohmann::json springs = read_json(out + "/springs_30_cpu_f64.json");
  EXPECT_NEAR(springs["initial_cost"].get<double>(), 27.0082445932, 1e-8);
  for (const char* name : {"springs_10", "shuffled_30", "arap_spot0", "smooth_spot0",
                           "developable_0", "developable_1"})
    EXPECT_GT(read_json(out + "/" + name + "_cpu_f64.json")["gradient_us"], 0) << name;
  EXPECT_EQ(read_json(out + "/trace_20000.json")["residuals"], 20000);
  const std::string page = read_file(out + "/report.html"), text = read_file(out + "/report.md");
  // One file: nothing is fetched. Times and shares of springs' seven kinds and developability's
  // four.
  EXPECT_EQ(occurrences(page, "src=") + occurrences(page, "href="), 0u);
  EXPECT_GE(occurrences(page, "<svg"), 2u * (7 + 4));
  EXPECT_EQ(occurrences(page, "<svg"), occurrences(page, "</svg>"));
  for (const char* title : {"## Machine", "## springs", "## arap", "## smooth", "## developable",
                            "## Tracing", "## Memory", "## Commands"})
    EXPECT_NE(text.find(title), text.npos) << title;
  EXPECT_NE(text.find("`topograd bench springs --width 30 --backend cpu"), text.npos);
}

// What scripts/bench --compare reports, without measuring.
TEST(BenchScript, TellsCountsThatDiffer) {
  if (std::system("python3 -c 'pass' 2>/dev/null") != 0) GTEST_SKIP() << "no python3 here";
  const TemporaryDir folder;
  const std::string program = folder.path() / "compare.py", out = folder.path() / "out";
  std::ofstream(program) << R"(
import copy, importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("counts", sys.argv[1])
counts = importlib.util.module_from_spec(importlib.util.spec_from_loader("counts", loader))
loader.exec_module(counts)
one = {"command": "solve a", "iterations": 3, "allocations": 1000, "instructions": 1000}
old = {"compiler": "GCC", "cpu": {"a": dict(one), "b": dict(one)}, "vulkan": {"c": {"command": "solve c", "readbacks": 2}}}
def told(change):
    new = copy.deepcopy(old)
    change(new)
    return list(counts.differences(old, new))
assert told(lambda new: None) == []
assert told(lambda new: new["cpu"]["a"].update(instructions=1030)) == []
assert told(lambda new: new["cpu"]["a"].update(instructions=500)) == []
assert told(lambda new: new["cpu"]["a"].update(instructions=1031)) == [
    "cpu, a: +3.10% instructions, at most +3% are allowed"]
assert told(lambda new: new["cpu"]["b"].update(allocations=1010)) == []
assert told(lambda new: new["cpu"]["b"].update(allocations=900)) == []
assert told(lambda new: new["cpu"]["b"].update(allocations=1020)) == [
    "cpu, b: +2.00% allocations, at most +1% are allowed"]
assert told(lambda new: new["cpu"]["b"].update(iterations=4)) == ["cpu, b: iterations was 3, is 4"]
assert told(lambda new: new["vulkan"]["c"].update(readbacks=3)) == ["vulkan, c: readbacks was 2, is 3"]
assert told(lambda new: new["cpu"].pop("b")) == ["cpu, b: is in the record alone"]
assert told(lambda new: new.update(compiler="Clang") or new["cpu"]["a"].update(instructions=9000)) == []
assert told(lambda new: new.update(vulkan={})) == []
)";
  const std::string command = "PYTHONDONTWRITEBYTECODE=1 python3 '" + program + "' '" +
                              (source_dir() / "scripts/bench-counts").string() + "' >'" + out +
                              "' 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << read_file(out);
}

// A site with two versions of the manual: each knows both, and the newest release is opened.
TEST(SiteScript, JoinsVersions) {
  if (std::system("python3 -c 'pass' 2>/dev/null") != 0) GTEST_SKIP() << "no python3 here";
  const TemporaryDir folder;
  for (const char* version : {"a", "b"}) {
    std::filesystem::create_directories(folder.path() / version / "_static");
    std::ofstream(folder.path() / version / "index.html") << version;
    std::ofstream(folder.path() / version / "_static/versions.js") << "const manualVersions = [];";
  }
  std::ofstream(folder.path() / "b/new.html") << "b";
  const std::filesystem::path site = folder.path() / "site";
  const auto run = [&](const std::string& built) {
    return std::system(("'" + (source_dir() / "scripts/site").string() + "' '" + site.string() +
                        "' " + built + " >'" + (folder.path() / "out").string() + "' 2>&1")
                           .c_str());
  };
  const std::string a = (folder.path() / "a").string(), b = (folder.path() / "b").string();
  ASSERT_EQ(run("--built v1.0='" + a + "' --built development='" + b + "'"), 0)
      << read_file(folder.path() / "out");
  EXPECT_NE(read_file(site / "index.html").find("url=v1.0/index.html"), std::string::npos);
  for (const char* version : {"v1.0", "development"}) {
    const std::string script = read_file(site / version / "_static/versions.js");
    EXPECT_NE(script.find(R"("folder": "v1.0", "pages": ["index.html"])"), script.npos) << script;
    EXPECT_NE(script.find(R"("folder": "development", "pages": ["index.html", "new.html"])"),
              script.npos)
        << script;
  }
  EXPECT_NE(run("--built v1.0=/nowhere"), 0);
  EXPECT_NE(read_file(folder.path() / "out").find("expected --built NAME=FOLDER"),
            std::string::npos);
}

}  // namespace
}  // namespace topograd::test
