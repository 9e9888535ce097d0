// topograd view as it is run: films, measurements, a page until a signal, and errors.
#include <gtest/gtest.h>

#include <string>

#include "../../view/server/server.hpp"
#include "../support/paths.hpp"
#include "../tools/run_command.hpp"

namespace topograd::test {
namespace {

TEST(ViewCommand, RecordsAScript) {
  const TemporaryDir folder;
  const std::string film = (folder.path() / "film.png").string(),
                    script = (source_dir() / "samples/data/view/drag.json").string();
  const CommandResult result = topograd("view arap --icosphere 2 --backend cpu --record " + film +
                                        " --script " + script + " --json -");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.err.empty()) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["solves"], 2 * 41);  // two seconds of 20 pictures, and the first
  EXPECT_GT(report["cost"], 0);
  const std::string bytes = read_file(film);
  EXPECT_TRUE(bytes.starts_with("\x89PNG"));
  // An animation's chunk says how many frames there are: those of the script, and the start.
  const std::size_t at = bytes.find("acTL");
  ASSERT_NE(at, bytes.npos);
  EXPECT_EQ(bytes.substr(at + 4, 4), std::string("\0\0\0\x2a", 4));
}

TEST(ViewCommand, MeasuresWithoutAPage) {
  const CommandResult result =
      topograd("view arap --icosphere 2 --backend cpu --bench 1 --random 3 --json -");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["points"], 162);
  EXPECT_EQ(report["backend"], "cpu");
  EXPECT_GT(report["solves_per_second"], 0);
  EXPECT_LE(report["drag_to_frame_frames"]["p50"], 2);
  EXPECT_GE(report["frame_ms"]["p99"], report["frame_ms"]["p50"]);
  EXPECT_EQ(report["shaders_compiled"], 0);
  EXPECT_EQ(report["nonfinite_frames"], 0);
  EXPECT_EQ(report["message"], "");
}

TEST(ViewCommand, ViewsFilesWithTheOptionsOfSolve) {
  const std::string data = (source_dir() / "samples/data").string();
  const struct {
    std::string arguments;
    int points;
  } rows[] = {
      {data + "/triangle.json", 3},
      {data + "/curve_fit.json --array c", 1},
      {"pose-graph " + data + "/ranges.g2o --skip-unknown --loss huber:1", 81},
      {"pose-graph " + data + "/ranges.g2o --skip-unknown --gnc --start odometry", 81},
  };
  for (const auto& [arguments, points] : rows) {
    const CommandResult result =
        topograd("view " + arguments + " --backend cpu --bench 0.2 --json -");
    ASSERT_EQ(result.status, 0) << arguments << ": " << result.err;
    const nlohmann::json report = nlohmann::json::parse(result.out);
    EXPECT_EQ(report["points"], points) << arguments;
    EXPECT_EQ(report["nonfinite_frames"], 0) << arguments;
    EXPECT_EQ(report["message"], "") << arguments;
  }
}

TEST(ViewCommand, ServesUntilASignal) {
  if (!view::server_is_built()) GTEST_SKIP() << "built without libwebsockets";
  const CommandResult result = topograd("view arap --icosphere 1 --backend cpu",
                                        "timeout --preserve-status --signal INT 10");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("http://127.0.0.1:")) << result.out;
  EXPECT_TRUE(result.out.ends_with("/\n")) << result.out;
}

TEST(ViewCommand, MistakesSayWhatToChange) {
  const struct {
    std::string arguments, part;
  } rows[] = {
      {"view nist", "expected the problem "},
      {"view none.json", "none.json: "},
      {"view " + (source_dir() / "samples/data/triangle.json").string() + " --array corners",
       "expected --array to be one of points, got \"corners\""},
      {"view bal", "bal: expected a file"},
      {"view pose-graph", "pose-graph: expected a file"},
      {"view arap", "expected --mesh FILE or --icosphere K"},
      {"view arap --icosphere 1 --record film.gif", "expected --record to end in .png or .mp4"},
      {"view arap --icosphere 1 --record a.png --bench 1", "got both"},
      {"view arap --icosphere 1 --bench 1 --script none.json", "none.json: cannot be read"},
      {"view arap --icosphere 1 --port 70000", "expected a number in 0 .. 65535"},
      {"view arap --icosphere 1 --backend abacus", "abacus"},
  };
  for (const auto& [arguments, part] : rows) {
    const CommandResult result = topograd(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_NE(result.err.find(part), std::string::npos) << arguments << ": " << result.err;
  }
  if (!view::server_is_built()) return;
  EXPECT_NE(topograd("view arap --icosphere 1 --host 0.0.0.0").err.find("--allow-remote"),
            std::string::npos);
}

}  // namespace
}  // namespace topograd::test
