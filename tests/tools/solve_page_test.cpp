// Output of solve for people: the page, pictures, the progress line.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include "../../api/formats/mesh/mesh.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// The part of a page between two texts.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  return from == text.npos ? "" : text.substr(from, text.find(end, from) - from);
}

struct Page {
  std::string html, png;
  nlohmann::json json;
};

Page solve(const std::string& arguments) {
  const TemporaryDir folder;
  const std::string base = folder.path() / "answer";
  const bool mesh = arguments.find("icosphere") != arguments.npos;
  const CommandResult result =
      topograd("solve " + arguments + " --backend cpu --quiet --report '" + base +
               ".html' --json '" + base + ".json'" + (mesh ? " --out '" + base + ".obj'" : ""));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.is_silent()) << result.err;
  return {read_file(base + ".html"), mesh ? read_file(base + ".png") : "",
          read_json(base + ".json")};
}

TEST(SolvePage, StandsAloneAndShowsEveryStep) {
  const struct {
    const char* arguments;
    std::size_t plots;  // cost, gradient, step; with a trust region its radius; with CG its steps
    std::size_t kernels;
  } rows[] = {{"developable --icosphere 1 --perturb 1e-3", 3, 2},
              {"smooth --icosphere 2 --linear pcg", 5, 8},
              {"smooth --icosphere 2 --linear pcg --precision mixed", 5, 8},
              {"smooth --icosphere 2 --linear cholesky", 4, 6},
              {"springs --width 5 --linear cholesky", 4, 6}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.arguments);
    const Page page = solve(row.arguments);
    for (const char* outside : {"http:", "https:", "<link", " src=\"/", "@import"})
      EXPECT_EQ(page.html.find(outside), page.html.npos) << outside;
    EXPECT_EQ(count(page.html, "<svg"), row.plots);
    EXPECT_EQ(count(page.html, "</svg>"), row.plots);
    EXPECT_EQ(count(page.html, "<section>"), count(page.html, "</section>"));
    EXPECT_EQ(count(between(page.html, "aria-label=\"Cost\"", "</svg>"), "<circle"),
              page.json["history"].size());
    for (const char* part : {"Where the time went", "Evaluation", "CONVERGENCE"})
      EXPECT_NE(page.html.find(part), page.html.npos) << part;
    EXPECT_EQ(count(page.html, "href=\"#kernel-"), count(page.html, "<details id=\"kernel-"));
    EXPECT_GE(count(page.html, "<details id=\"kernel-"), row.kernels);
    EXPECT_GE(count(page.html, "#version 450"), row.kernels);
  }
}

TEST(SolvePage, PicturesOfMeshesGoBesideThem) {
  const Page page = solve("developable --icosphere 1 --perturb 1e-3 --max-iterations 3");
  EXPECT_TRUE(page.png.starts_with("\x89PNG\r\n"));
  EXPECT_NE(page.html.find("src=\"data:image/png;base64,iVBOR"), page.html.npos);
  EXPECT_NE(page.html.find("energy of a vertex star"), page.html.npos);
  EXPECT_EQ(solve("springs --width 5").html.find("<img"), page.html.npos);
}

TEST(SolvePage, RejectedStepsAreMarked) {
  // Rosenbrock's valley: the first steps overshoot.
  const TemporaryDir folder;
  const std::string file = folder.path() / "valley.json";
  const nlohmann::json problem = {
      {"parameters", {{{"name", "x"}, {"values", {-1.2}}}, {{"name", "y"}, {"values", {1.0}}}}},
      {"residuals",
       {{{"expressions", {"10 * (y - x * x)", "1 - x"}}, {"parameters", {"x", "y"}}}}}};
  std::ofstream(file) << problem.dump();
  const Page page = solve("'" + file + "'");
  EXPECT_GT(page.json["unsuccessful_steps"], 0);
  EXPECT_EQ(count(between(page.html, "aria-label=\"Cost\"", "</svg>"), "class=\"rejected\""),
            page.json["unsuccessful_steps"].get<std::size_t>());
}

TEST(SolvePage, UnknownsThatNothingReadsAreNamed) {
  const TemporaryDir folder;
  const std::string file = folder.path() / "slip.json";
  const nlohmann::json problem = {
      {"parameters", {{{"name", "x"}, {"values", {3.0}}}, {{"name", "spare"}, {"values", {7.0}}}}},
      {"residuals", {{{"expressions", {"x - 1"}}, {"parameters", {"x"}}}}}};
  std::ofstream(file) << problem.dump();
  const CommandResult result = topograd("solve '" + file + "' --backend cpu");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("Nothing reads parameter \"spare\": unchanged\n"), std::string::npos)
      << result.out;
  EXPECT_EQ(solve("'" + file + "'").json["unread_blocks"], 1);
  EXPECT_EQ(solve("springs --width 5").json["unread_blocks"], 0);
}

TEST(SolvePage, SetsHaveARowARun) {
  const Page page = solve("mgh --set rosenbrock --linear cholesky");
  EXPECT_EQ(count(between(page.html, "<h2>Runs</h2>", "</section>"), "<tr class=\"run\">"), 3u);
  EXPECT_NE(page.html.find("3 of 3 runs solved"), page.html.npos);
}

TEST(SolvePage, ProgressIsShownOnTerminalsAlone) {
  const TemporaryDir folder;
  // Longer than the first second, in which nothing is shown.
  const std::string solve =
      "solve springs --width 10 --backend cpu --method adam --tolerance 0 "
      "--max-iterations 100000000 --time-limit 1.5";
  const std::string line = "'" + (program_dir() / "topograd").string() + "' " + solve;
  const auto shown = [&](const std::string& options) {
    const std::string log = folder.path() / "terminal";
    const std::string command =
        "script -qec \"" + line + options + "\" /dev/null >'" + log + "' </dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return read_file(log);
  };
  const std::string progress = shown("");
  EXPECT_NE(progress.find("\r\033[Kstep "), std::string::npos) << progress;
  EXPECT_NE(progress.find(" left"), std::string::npos) << progress;
  for (const char* options : {" --quiet", " --json -"})
    EXPECT_EQ(shown(options).find('\033'), std::string::npos) << options;
  EXPECT_EQ(topograd(solve).err.find('\033'), std::string::npos);
}

/// Before the first step the line says what is done: here a file that comes after two seconds. Its
/// writer ends, too, where nobody reads: it would keep the test from ending.
TEST(SolvePage, ProgressIsShownBeforeTheFirstStep) {
  const TemporaryDir folder;
  const std::string file = folder.path() / "slow\x1b.json", log = folder.path() / "terminal";
  const std::string problem = (source_dir() / "samples/data/curve_fit.json").string();
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  const std::string command = "timeout 60 sh -c \"{ sleep 2; cat '" + problem + "'; } >'" + file +
                              "'\" & script -qec \"'" + (program_dir() / "topograd").string() +
                              "' solve '" + file + "' --backend cpu\" /dev/null >'" + log +
                              "' </dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  const std::string shown = read_file(log);
  EXPECT_NE(shown.find("\r\033[Kreading slow?.json  1."), std::string::npos) << shown;
  EXPECT_EQ(count(shown, "\033"), count(shown, "\r\033[K")) << shown;
}

TEST(Demo, DeformsTheMeshOfTheProgramAndDrawsIt) {
  const TemporaryDir folder;
  const std::string out = folder.path() / "a new folder", base = out + "/spot";
  const CommandResult run = topograd("demo --out '" + out + "'", "cd / && env -u HOME");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  for (const char* part : {"2930 vertices", "17580 unknowns, 53328 residuals", "CONVERGENCE",
                           "spot.png shows the mesh before and after", "topograd view arap"})
    EXPECT_NE(run.out.find(part), std::string::npos) << part << '\n' << run.out;
  EXPECT_TRUE(read_file(base + ".png").starts_with("\x89PNG\r\n"));
  EXPECT_TRUE(read_file(base + ".svg").starts_with("<svg"));

  const std::string after = folder.path() / "after.obj";
  ASSERT_EQ(
      topograd("solve arap --mesh '" + spot() + "' --backend cpu --quiet --out '" + after + "'")
          .status,
      0);
  EXPECT_EQ(read_mesh(base + "_before.obj").positions, read_mesh(spot()).positions);
  const std::vector<double> solved = read_mesh(base + "_after.obj").positions,
                            expected = read_mesh(after).positions;
  ASSERT_EQ(solved.size(), expected.size());
  for (std::size_t k = 0; k < solved.size(); ++k) EXPECT_NEAR(solved[k], expected[k], 1e-3) << k;
}

TEST(Demo, SaysWhenItsFolderCannotBeMade) {
  const CommandResult run = topograd("demo --out /dev/null/demo");
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.err.find("/dev/null/demo: cannot be made"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace topograd::test
