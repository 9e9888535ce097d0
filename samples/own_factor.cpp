// A BAL file with factors of one's own: positions of the cameras by GPS, and focal lengths near a
// known one.
//
//   own_factor SCENE.txt GPS.txt OUT.ply
#include <topograd/api/formats/bal.hpp>
#include <topograd/api/formats/bundle_adjustment.hpp>
#include <topograd/api/formats/packed_text.hpp>
#include <topograd/api/formats/word_reader.hpp>
#include <topograd/topograd.hpp>

#include "sample.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace tg = topograd;

namespace {

struct Fix {
  std::size_t camera = 0;
  std::array<double, 3> position = {};  // metres
};

/// Lines "camera x y z". Errors name file and line.
std::vector<Fix> read_fixes(const std::string& path, std::size_t cameras) {
  const std::string text = tg::read_packed_text(path);
  tg::WordReader reader(text, path, {.comments = true});
  std::vector<Fix> fixes;
  while (reader.next_line()) {
    Fix& fix = fixes.emplace_back();
    fix.camera = reader.index_of_line("a camera", cameras);
    for (double& x : fix.position) x = reader.number_of_line("a coordinate");
  }
  return fixes;
}

/// Root mean square distance of the cameras from where they should be, in metres.
double distance(const tg::BundleScene& scene, const std::vector<Fix>& fixes) {
  double sum = 0;
  for (const Fix& fix : fixes)
    for (std::size_t k = 0; k < 3; ++k)
      sum += std::pow(scene.center(fix.camera)[k] - fix.position[k], 2);
  return std::sqrt(sum / static_cast<double>(fixes.size()));
}

void print(const char* when, const tg::BundleAdjustment& adjustment,
           const std::vector<Fix>& fixes) {
  std::printf("%-6s reprojection %8.3f pixels, cameras %7.3f m from GPS\n", when,
              adjustment.errors().rmse, distance(adjustment.scene(), fixes));
}

}  // namespace

static int program(sample::Arguments& arguments) {
  const tg::Interrupts interrupts;  // Ctrl-C ends a solve at its best point
  const std::string file = arguments.file(), gps = arguments.file(), out = arguments.text();

  tg::BundleAdjustment adjustment(tg::read_bal(file), {.loss = tg::huber(1.0)});

  const std::vector<Fix> fixes = read_fixes(gps, adjustment.scene().camera_count());
  tg::Problem& problem = adjustment.problem();
  const tg::Parameters& cameras = adjustment.cameras();
  for (const Fix& fix : fixes) {
    const std::size_t c = fix.camera;
    const tg::Vec3 turn = {cameras(c, 0), cameras(c, 1), cameras(c, 2)};
    const tg::Vec3 shift = {cameras(c, 3), cameras(c, 4), cameras(c, 5)};
    const tg::Vec3 center = -rotate(-turn, shift);  // −Rᵀ t
    const tg::Vec3 position = {fix.position[0], fix.position[1], fix.position[2]};
    problem.add_residual((center - position) / 0.05, {.label = "gps"});
  }

  for (std::size_t c = 0; c < cameras.size(); ++c)
    problem.add_residual((cameras(c, 6) - 800.0) / 20.0, {.label = "focal length"});

  print("before", adjustment, fixes);
  const tg::Summary summary = tg::solve(problem, {.max_iterations = 100});
  print("after", adjustment, fixes);
  std::printf("%s\n", summary.brief_report().c_str());
  tg::write_scene(out, adjustment.scene());
  return summary.is_solution_usable() && distance(adjustment.scene(), fixes) < 0.1 ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "own_factor SCENE.txt GPS.txt OUT.ply", program);
}
