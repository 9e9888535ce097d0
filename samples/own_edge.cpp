// A g2o file with edges of one's own: distances to beacons whose places are unknown.
//
//   own_edge GRAPH.g2o OUT.g2o
#include <topograd/api/formats/g2o.hpp>
#include <topograd/api/formats/packed_text.hpp>
#include <topograd/api/formats/pose_graph_problem.hpp>
#include <topograd/api/formats/pose_graph_start.hpp>
#include <topograd/api/formats/word_reader.hpp>
#include <topograd/topograd.hpp>

#include "sample.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace tg = topograd;

namespace {

constexpr std::uint64_t kMostName = std::uint64_t{1} << 62;

struct Ranges {
  std::vector<double> beacons;         // x, y of each, metres
  std::vector<std::uint32_t> indices;  // pose and beacon of each distance
  std::vector<double> distances;       // metres
};

/// Lines "BEACON number x y" and "RANGE pose beacon metres". Errors name file and line.
Ranges read_ranges(const std::string& path, const tg::PoseGraph& graph) {
  const std::string text = tg::read_packed_text(path);
  tg::WordReader reader(text, path, {.comments = true});
  std::map<std::int64_t, std::uint32_t> poses;  // numbers by the names in the file
  for (std::uint32_t k = 0; k < graph.size(); ++k) poses.emplace(graph.ids[k], k);
  Ranges ranges;
  while (reader.next_line()) {
    const std::string tag(reader.word_of_line());
    const std::size_t beacons = ranges.beacons.size() / 2;
    if (tag == "BEACON") {
      if (reader.index_of_line("the next beacon", beacons + 1) != beacons)
        reader.fail("expected beacon " + std::to_string(beacons));
      for (int k = 0; k < 2; ++k) ranges.beacons.push_back(reader.number_of_line("a coordinate"));
    } else if (tag == "RANGE") {
      const std::uint64_t name = reader.index_of_line("a pose", kMostName);
      const auto pose = poses.find(static_cast<std::int64_t>(name));
      if (pose == poses.end()) reader.fail("expected a pose of the graph");
      const std::uint64_t beacon = reader.index_of_line("a beacon", beacons);
      ranges.indices.insert(ranges.indices.end(),
                            {pose->second, static_cast<std::uint32_t>(beacon)});
      ranges.distances.push_back(reader.number_of_line("a distance"));
    }
  }
  return ranges;
}

/// How far apart the first and the last pose are, which are at one place.
double gap(const tg::PoseGraph& graph) {
  const auto &a = graph.poses.front().position, &b = graph.poses.back().position;
  return std::hypot(a[0] - b[0], a[1] - b[1]);
}

}  // namespace

static int program(sample::Arguments& arguments) {
  const tg::Interrupts interrupts;  // Ctrl-C ends a solve at its best point
  const std::string file = arguments.file(), out = arguments.text();

  tg::G2oNotes notes;
  const tg::PoseGraph read = tg::read_g2o(file, {.skip_unknown = true}, &notes);
  tg::PoseGraphProblem graph(tg::with_start(read, tg::PoseStart::odometry));

  for (const tg::G2oNotes::Skipped& skipped : notes.skipped)
    std::printf("%zu lines of %s\n", skipped.lines, skipped.tag.c_str());
  std::printf("odometry ends %.3f m from its beginning\n", gap(graph.graph()));

  Ranges ranges = read_ranges(file, read);
  tg::Problem& problem = graph.problem();
  const tg::Parameters beacons = problem.add_parameters(ranges.beacons, 2, "beacons");
  const tg::Parameters positions = graph.positions();
  const auto range = [=](const tg::Element& e) {
    return (norm(e.vec2(positions, 0) - e.vec2(beacons, 1)) - e.data(0)) / 0.05;
  };
  problem.add_residuals(ranges.distances.size(), range,
                        {.indices = ranges.indices, .data = ranges.distances, .label = "range"});

  const tg::Summary summary = tg::solve(problem, {.max_iterations = 100});
  std::printf("%s\nwith ranges it ends %.3f m from there\n", summary.brief_report().c_str(),
              gap(graph.graph()));
  for (std::size_t k = 0; k < ranges.beacons.size(); k += 2)
    std::printf("beacon %zu at %.2f %.2f\n", k / 2, ranges.beacons[k], ranges.beacons[k + 1]);
  tg::write_text_file(out, tg::g2o_text(graph.graph()));
  return summary.is_solution_usable() && gap(graph.graph()) < 0.2 ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "own_edge GRAPH.g2o OUT.g2o", program);
}
