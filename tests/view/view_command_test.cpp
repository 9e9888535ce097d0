// topograd view as it is run: films, measurements, a page until a signal, and errors.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
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

TEST(ViewCommand, RecordsPointsAndLines) {
  const TemporaryDir folder;
  const std::string film = (folder.path() / "film.png").string(),
                    graph = (source_dir() / "samples/data/ranges.g2o").string();
  for (const std::string& subject :
       {std::string("bundle --cameras 4 --points 60 --observations 200"),
        "pose-graph " + graph + " --skip-unknown"}) {
    const CommandResult result = topograd("view " + subject + " --backend cpu --record " + film);
    ASSERT_EQ(result.status, 0) << subject << ": " << result.err;
    // Marks of several brightnesses on one background do not compress to nothing.
    const std::string bytes = read_file(film);
    EXPECT_TRUE(bytes.starts_with("\x89PNG")) << subject;
    EXPECT_GT(bytes.size(), 51u * 1000u) << subject;
  }
}

/// Pictures of a film as bytes of grey, one after the other; empty if ffmpeg cannot read it.
std::string grey_pictures(const std::string& film, const std::string& format,
                          const std::filesystem::path& folder) {
  const std::string out = (folder / "grey").string();
  const std::string command = "ffmpeg -nostdin -loglevel error -y " + format + "-i '" + film +
                              "' -vsync passthrough -pix_fmt gray -f rawvideo '" + out + "'";
  return std::system(command.c_str()) == 0 ? read_file(out) : std::string();
}

TEST(ViewCommand, AnMp4HasThePicturesOfThePng) {
  if (std::system("ffmpeg -version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no ffmpeg";
  const TemporaryDir folder;
  const std::string script = (source_dir() / "samples/data/view/drag.json").string();
  const auto record = [&](const std::string& name, const std::string& format) {
    const std::string film = (folder.path() / name).string();
    const CommandResult result =
        topograd("view arap --icosphere 2 --backend cpu --record " + film + " --script " + script);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(result.err.empty()) << result.err;
    return grey_pictures(film, format, folder.path());
  };
  const std::string png = record("film.png", "-f apng "), mp4 = record("film.mp4", "");
  constexpr std::size_t kPictures = 42;
  ASSERT_EQ(mp4.size(), png.size());
  ASSERT_EQ(mp4.size() % kPictures, 0u);
  const std::size_t pixels = mp4.size() / kPictures;
  ASSERT_GT(pixels, 0u);
  const auto difference = [&](const std::string& a, std::size_t k, const std::string& b,
                              std::size_t l) {
    double sum = 0;
    for (std::size_t p = 0; p < pixels; ++p)
      sum += std::abs(static_cast<unsigned char>(a[pixels * k + p]) -
                      static_cast<unsigned char>(b[pixels * l + p]));
    return sum / static_cast<double>(pixels);
  };
  // Compression loses 0.3 of 255 shades, and 43 lie between the first and the last picture.
  for (std::size_t k = 0; k < kPictures; ++k) EXPECT_LT(difference(mp4, k, png, k), 2) << k;
  EXPECT_GT(difference(mp4, 0, mp4, kPictures - 1), 10);
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

TEST(ViewCommand, ChecksRandomDrags) {
  // Caches of the C library's allocator fill for minutes, by a percent.
  const CommandResult result =
      topograd("check view --seconds 6 --icosphere 2 --seed 4 --backend cpu --json -",
               "env MALLOC_ARENA_MAX=1 GLIBC_TUNABLES=glibc.malloc.tcache_count=0");
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["check"], "view");
  EXPECT_EQ(report["broken"], false);
  EXPECT_EQ(report["points"], 162);
  EXPECT_EQ(report["nonfinite_frames"], 0);
  EXPECT_EQ(report["shaders_compiled"], 0);
  EXPECT_GT(report["solves"], 20);
  EXPECT_GT(report["drags"], 60);
  for (const char* figure : {"resident_bytes", "heap_bytes"}) {
    EXPECT_GT(report[figure]["first"], 1'000'000) << figure;
    EXPECT_GT(report[figure]["last"], 1'000'000) << figure;
    EXPECT_EQ(report[figure]["broken"], false) << figure;
  }
  EXPECT_EQ(topograd("check view --seconds 0").status, 2);
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

TEST(ViewCommand, OpensThePageByAFileThatOthersCannotRead) {
  if (!view::server_is_built()) GTEST_SKIP() << "built without libwebsockets";
  // Stands in for the desktop's program: notes its argument, and the file's rights and text.
  const TemporaryDir folder;
  const std::string at = folder.path().string(), opener = at + "/xdg-open";
  std::ofstream(opener) << "#!/bin/sh\necho \"$1\" > '" << at
                        << "/argument'\nstat -c '%a %U' \"$1\" > '" << at
                        << "/rights'\nstat -c %a \"$(dirname \"$1\")\" >> '" << at
                        << "/rights'\ncat \"$1\" > '" << at << "/text'\n";
  std::filesystem::permissions(opener, std::filesystem::perms::owner_all);
  const CommandResult result = topograd(
      "view arap --icosphere 1 --backend cpu --open",
      "PATH='" + at + "':$PATH TMPDIR='" + at + "' timeout --preserve-status --signal INT 5");
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string url = result.out.substr(0, result.out.find('\n'));
  const std::string token = url.substr(url.size() - 33, 32);
  const std::string argument = read_file(at + "/argument");
  EXPECT_EQ(argument.find(token), argument.npos) << argument;
  EXPECT_TRUE(read_file(at + "/rights").starts_with("600 ")) << read_file(at + "/rights");
  EXPECT_TRUE(read_file(at + "/rights").ends_with("\n700\n")) << read_file(at + "/rights");
  EXPECT_NE(read_file(at + "/text").find("url=" + url + "\""), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(argument.substr(0, argument.size() - 1)));
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
  const CommandResult without =
      topograd("view arap --icosphere 1 --record a.mp4", "env PATH=/nowhere");
  EXPECT_EQ(without.status, 2);
  EXPECT_NE(without.err.find("needs the program ffmpeg, which was not found (Debian: ffmpeg)"),
            std::string::npos)
      << without.err;
  if (!view::server_is_built()) return;
  EXPECT_NE(topograd("view arap --icosphere 1 --host 0.0.0.0").err.find("--allow-remote"),
            std::string::npos);
}

}  // namespace
}  // namespace topograd::test
