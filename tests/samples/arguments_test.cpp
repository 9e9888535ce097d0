// Wrong arguments of samples give one line on standard error and exit status 2.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "../support/paths.hpp"

namespace topograd::test {
namespace {

namespace fs = std::filesystem;

struct Ended {
  int status = -1;
  std::string errors;  // its standard error
};

Ended run(const std::string& line, const fs::path& folder) {
  const fs::path errors = folder / "errors";
  const std::string command = "cd \"" + folder.string() + "\" && TOPOGRAD_BACKEND=cpu \"" +
                              (program_dir() / "samples").string() + "\"/" + line +
                              " > out 2> errors";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(errors)};
}

bool is_built(const std::string& line) {
  return fs::exists(program_dir() / "samples" / line.substr(0, line.find(' ')));
}

TEST(Samples, WrongArgumentsAreOneLine) {
  const struct {
    std::string line, begin;
  } rows[] = {
      {"digest many",
       "digest: expected a whole number from 1 to 1000000000 for MESSAGES, got \"many\"; usage: "
       "digest [MESSAGES]\n"},
      {"digest -1", "digest: expected a whole number from 1 to 1000000000 for MESSAGES, got"},
      {"digest 12x", "digest: expected a whole number from 1 to 1000000000 for MESSAGES, got"},
      {"digest --fast",
       "digest: expected arguments without options, got \"--fast\"; usage: digest [MESSAGES]\n"},
      {"digest 10 20", "digest: expected at most 1 arguments, got 2; usage: digest [MESSAGES]\n"},
      {"digest 99999999999999999999", "digest: expected a whole number from 1 to 1000000000 for"},
      {"batched_inference 0", "batched_inference: expected a whole number from 1"},
      {"batched_inference 10 gpu",
       "batched_inference: expected one of best, cpu, vulkan for best|cpu|vulkan, got \"gpu\""},
      {"bundle no/where.csv", "bundle: cannot write no/where.csv: No such file or directory\n"},
      {"cloth out.obj many", "cloth: expected a whole number from 2 to 10000 for VERTICES"},
      {"cloth out.obj 4 -3", "cloth: expected a whole number from 1 to 1000000000 for FRAMES"},
      {"cloth no/where.obj 4 1", "cloth: cannot write no/where.obj: No such file or directory\n"},
      {"developable none.obj", "developable: cannot read none.obj: No such file or directory\n"},
      {"developable -1", "developable: expected a whole number from 0 to 8"},
      {"digits none.csv", "digits: cannot read none.csv: No such file or directory\n"},
      {"digits .", "digits: cannot read .: Is a directory\n"},
      {"data_parallel 1", "data_parallel: expected a whole number from 2"},
      {"ed25519 x", "ed25519: expected a whole number from 1"},
      {"frames 3 cpu tall", "frames: expected a whole number from 1 to 20000 for HEIGHT"},
      {"handle film.png two", "handle: expected a whole number from 1 to 8 for SUBDIVISIONS"},
      {"handle film.png 2 1", "handle: expected a whole number from 2"},
      {"handle film.png 1 2 stiff", "handle: expected one of rigid, developable"},
      {"hybrid_scheduler x", "hybrid_scheduler: expected a whole number from 10"},
      {"image_pipeline out.png cpu none.png",
       "image_pipeline: cannot read none.png: No such file or directory\n"},
      {"image_pipeline out.png cpu -5", "image_pipeline: expected a whole number from 1 to 20000"},
      {"image_pipeline no/where.png cpu 9", "image_pipeline: cannot write no/where.png"},
      {"knn_cosine 10", "knn_cosine: expected a whole number from 500"},
      {"live_view long", "live_view: expected a whole number from 1"},
      {"mesh_weights none.obj out.obj", "mesh_weights: cannot read none.obj"},
      {"nearest 3 cpu", "nearest: expected a whole number from 10"},
      {"option_pricing x", "option_pricing: expected a whole number from 2"},
      {"own_edge none.g2o out.g2o", "own_edge: cannot read none.g2o: No such file or directory\n"},
      {"own_factor none.txt none.txt out.ply", "own_factor: cannot read none.txt: No such file"},
      {"parametrise no/where.obj no/flat.obj 4", "parametrise: cannot write no/where.obj"},
      {"serialisable 10", "serialisable: expected a whole number from 100"},
      {"sha256 x", "sha256: expected a whole number"},
      {"smooth none.obj out.obj", "smooth: cannot read none.obj: No such file or directory\n"},
      {"smooth",
       "smooth: expected at least 2 arguments, got 0; usage: smooth MESH.obj OUT.obj "
       "[automatic|cpu|vulkan]\n"},
      {"arap none.obj out.obj", "arap: cannot read none.obj: No such file or directory\n"},
      {"spectral_filter -4 cpu", "spectral_filter: expected a whole number from 400"},
      {"spreading 100 none", "spreading: expected a whole number from 1"},
      {"springs nowhere", "springs: "},
      {"transactions 0", "transactions: expected a whole number from 1"},
      {"value_at_risk out.png many", "value_at_risk: expected a whole number from 100"},
      {"vector_add 1.5", "vector_add: expected a whole number from 1"},
  };
  const TemporaryDir folder;
  int tried = 0;
  for (const auto& row : rows) {
    if (!is_built(row.line)) continue;  // a requirement was missing
    ++tried;
    const Ended ended = run(row.line, folder.path());
    EXPECT_EQ(ended.status, 2) << row.line << ": " << ended.errors;
    EXPECT_EQ(ended.errors.find(row.begin), 0u) << row.line << ": " << ended.errors;
    EXPECT_EQ(std::ranges::count(ended.errors, '\n'), 1) << row.line << ": " << ended.errors;
  }
  EXPECT_GE(tried, 30);
}

/// Help is printed and nothing else is done: no file has its name.
TEST(Samples, HelpIsTheUsage) {
  const TemporaryDir folder;
  int tried = 0;
  for (const char* name : {"arap",
                           "batched_inference",
                           "bundle",
                           "cloth",
                           "data_parallel",
                           "developable",
                           "digest",
                           "digits",
                           "drape",
                           "ed25519",
                           "frames",
                           "handle",
                           "hybrid_scheduler",
                           "image_pipeline",
                           "knn_cosine",
                           "live_view",
                           "mesh_weights",
                           "nearest",
                           "option_pricing",
                           "own_edge",
                           "own_factor",
                           "parametrise",
                           "serialisable",
                           "sha256",
                           "smooth",
                           "spectral_filter",
                           "spreading",
                           "springs",
                           "transactions",
                           "value_at_risk",
                           "vector_add"}) {
    if (!is_built(name)) continue;
    ++tried;
    for (const char* help : {" --help", " -h", " 10 --help"}) {
      const Ended ended = run(name + std::string(help), folder.path());
      EXPECT_EQ(ended.status, 0) << name << help;
      EXPECT_EQ(ended.errors, "") << name << help;
      const std::string out = read_file(folder.path() / "out");
      EXPECT_EQ(out.find("usage: " + std::string(name)), 0u) << out;
      EXPECT_EQ(std::ranges::count(out, '\n'), 1) << out;
    }
  }
  EXPECT_GE(tried, 20);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path()))
    EXPECT_TRUE(entry.path().filename() == "out" || entry.path().filename() == "errors")
        << entry.path();
}

/// If a file cannot be written, its old contents stay and no temporary file is left.
TEST(Samples, OutputsAreReplacedAsAWhole) {
  const TemporaryDir folder;
  for (const std::string line :
       {"cloth result 4 1", "bundle result", "parametrise result flat 4"}) {
    std::ofstream(folder.path() / "result") << "before";
    const fs::path other = folder.path() / "other";
    fs::remove(other);
    fs::create_hard_link(folder.path() / "result", other);
    EXPECT_EQ(run(line, folder.path()).status, 0) << line;
    EXPECT_EQ(read_file(other), "before") << line << " writes into the file that was there";
    EXPECT_NE(read_file(folder.path() / "result"), "before") << line;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path()))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
}

/// Frames that reach the limit of steps are named.
TEST(Samples, FramesAtTheirLimitOfStepsSaySo) {
  const TemporaryDir folder;
  const auto printed = [&](const std::string& line) {
    EXPECT_EQ(run(line, folder.path()).status, 0) << line;
    return read_file(folder.path() / "out");
  };
  const std::string few = printed("cloth cloth.obj 6 3 1"), enough = printed("cloth cloth.obj 6 3");
  for (const char* frame : {"frame 0: ", "frame 1: ", "frame 2: "})
    EXPECT_NE(few.find(std::string(frame) + "maximum number of iterations reached: 1. "),
              std::string::npos)
        << few;
  EXPECT_EQ(enough.find("frame 0: "), std::string::npos) << enough;
}

}  // namespace
}  // namespace topograd::test
