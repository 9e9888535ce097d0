// A live solver on the CPU: where it ends, what drags do, and what never happens.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>

#include "../../api/formats/mesh/mesh.hpp"
#include "../../api/problem_file.hpp"
#include "../../ir/error.hpp"
#include "../../solver/evaluator.hpp"
#include "../../tools/problems/arap.hpp"
#include "../../tools/problems/bundle.hpp"
#include "../../tools/view/film/measure.hpp"
#include "../../tools/view/subjects/subjects.hpp"
#include "../../view/live/live_solver.hpp"
#include "../../view/protocol.hpp"
#include "../../view/service.hpp"
#include "../support/paths.hpp"

namespace topograd::test {
namespace {

using view::Frame;
using view::LiveSolver;

view::LiveOptions on_cpu(int steps = 8) {
  return {.solver = {.backend = Backend::cpu, .max_iterations = steps}};
}

constexpr double kPatience = 60;

/// The first frame from which nothing changes any more.
std::shared_ptr<const Frame> settled(const LiveSolver& live, std::uint64_t after = 0) {
  std::shared_ptr<const Frame> frame;
  for (std::uint64_t number = after; (frame = live.wait(number, kPatience));) {
    if (frame->settled) return frame;
    number = frame->number;
  }
  return nullptr;
}

template <class Condition>
bool eventually(Condition condition) {
  for (int k = 0; k < 3000; ++k) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// The minimum is Ceres' (sparse Cholesky, 84 iterations).
TEST(LiveSolver, ReachesTheMinimumOfArap) {
  const TriangleMesh mesh = read_mesh((source_dir() / "samples/data/spot.obj").string());
  view::LiveOptions options = on_cpu();
  options.solver.linear_solver = LinearSolver::cholesky;
  LiveSolver live(view::arap_subject(mesh), options);
  constexpr double kMinimum = 0.0762447949443;
  std::shared_ptr<const Frame> frame = live.wait(0, kPatience);
  ASSERT_NE(frame, nullptr);
  EXPECT_EQ(frame->backend, "cpu");
  while (frame->cost > (1 + 1e-4) * kMinimum && frame->number < 400 && !frame->settled) {
    frame = live.wait(frame->number, kPatience);
    ASSERT_NE(frame, nullptr);
  }
  EXPECT_NEAR(frame->cost, kMinimum, 1e-4 * kMinimum) << "frame " << frame->number;
  EXPECT_EQ(frame->compiled, 0u);
}

TEST(LiveSolver, StartsAtTheCostOfArap) {
  const TriangleMesh mesh = problems::icosphere(2);
  auto arap = problems::arap(mesh);
  view::Subject subject = view::arap_subject(mesh);
  view::Handles handles(mesh.positions, subject.handles);
  subject.problem->set(subject.pulls.targets, handles.targets());
  subject.problem->set(subject.pulls.switches, handles.switches());
  EXPECT_NEAR(Evaluator(*subject.problem).cost(), Evaluator(arap->problem).cost(), 1e-12);
}

TEST(LiveSolver, FollowsADrag) {
  LiveSolver live(view::arap_subject(problems::icosphere(2)), on_cpu());
  const auto before = settled(live);
  ASSERT_NE(before, nullptr);
  // Ten drags: only the newest counts.
  view::Point to{};
  for (int k = 1; k <= 10; ++k) {
    to = {0.1 * k, 1.5, 0.2};
    ASSERT_TRUE(live.post(view::Drag{2, to, static_cast<std::uint64_t>(k), k == 1}));
  }
  const auto after = settled(live, before->number);
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(after->drag, 10u);
  const std::size_t anchor = 3 * live.state()->handles.at(2).anchor;
  for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(after->positions[anchor + c], to[c], 0.02);
  EXPECT_EQ(live.state()->undo_depth, 1u);

  ASSERT_TRUE(live.post(view::Undo{}));
  const auto back = settled(live, after->number);
  ASSERT_NE(back, nullptr);
  EXPECT_NEAR(back->cost, before->cost, 1e-6 * before->cost);
}

TEST(LiveSolver, GrabsReleasesWeighsAndResets) {
  LiveSolver live(view::arap_subject(problems::icosphere(2)), on_cpu());
  const auto start = settled(live);
  ASSERT_NE(start, nullptr);
  live.post(view::Grab{7, 40, 0.3});
  live.post(view::Weigh{"rigidity", 0.5});
  live.post(view::Drag{7, {2, 0, 0}, 1, false});
  auto pulled = settled(live, start->number);
  while (pulled != nullptr && pulled->drag < 1) pulled = settled(live, pulled->number);
  ASSERT_NE(pulled, nullptr);
  ASSERT_EQ(live.state()->handles.size(), 3u);
  EXPECT_GT(live.state()->handles.at(7).vertices.size(), 1u);
  EXPECT_GT(pulled->cost, start->cost);
  live.post(view::Weigh{"rigidity", 1});
  live.post(view::Release{7});
  const auto is_back = [&](const view::Frame& frame) {
    return std::abs(frame.cost - start->cost) <= 1e-5 * start->cost;
  };
  // The live solver may have solved between the two commands.
  auto free = settled(live, pulled->number);
  while (free != nullptr && !is_back(*free)) free = settled(live, free->number);
  ASSERT_NE(free, nullptr) << "the cost is not that of the start";
  live.post(view::Pause{true});
  live.post(view::Reset{});
  ASSERT_TRUE(eventually([&] { return live.state()->paused; }));
  live.post(view::Step{});
  const auto again = live.wait(free->number, kPatience);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->number, free->number + 1);
}

TEST(LiveSolver, PausesAndSteps) {
  LiveSolver live(view::arap_subject(problems::icosphere(1)),
                  {.solver = {.backend = Backend::cpu, .max_iterations = 1}, .paused = true});
  EXPECT_EQ(live.wait(0, 0.2), nullptr);
  for (std::uint64_t k = 1; k <= 3; ++k) {
    live.post(view::Step{});
    const auto frame = live.wait(k - 1, kPatience);
    ASSERT_NE(frame, nullptr);
    EXPECT_EQ(frame->number, k);
    EXPECT_EQ(frame->steps, 1);
  }
  EXPECT_EQ(live.wait(3, 0.2), nullptr);
}

TEST(LiveSolver, ColorsArePerPoint) {
  LiveSolver live(view::arap_subject(problems::icosphere(1)), on_cpu());
  auto frame = settled(live);
  ASSERT_NE(frame, nullptr);
  EXPECT_TRUE(frame->values.empty());
  live.post(view::Color{view::Coloring::displacement});
  frame = settled(live, frame->number);
  ASSERT_NE(frame, nullptr);
  ASSERT_EQ(frame->values.size(), 42u);
  for (std::size_t p = 0; p < 42; ++p) {
    double sum = 0;
    for (std::size_t c = 3 * p; c < 3 * p + 3; ++c)
      sum += std::pow(frame->positions[c] - live.start()[c], 2);
    EXPECT_DOUBLE_EQ(frame->values[p], std::sqrt(sum));
  }
  live.post(view::Color{view::Coloring::residual});
  frame = settled(live, frame->number);
  ASSERT_NE(frame, nullptr);
  // Each edge's residual is read by two points, a handle's by one: sums of squares are between one
  // and two times twice the cost.
  double sum = 0;
  for (const double r : frame->values) sum += r * r;
  EXPECT_GT(sum, 2 * frame->cost);
  EXPECT_LE(sum, 4 * frame->cost * (1 + 1e-9));
  live.post(view::Color{view::Coloring::gradient});
  frame = settled(live, frame->number);
  ASSERT_NE(frame, nullptr);
  EXPECT_EQ(frame->values.size(), 42u);
  EXPECT_LT(frame->high, 1e-2);
}

TEST(LiveSolver, MistakesAreMessages) {
  LiveSolver live(view::arap_subject(problems::icosphere(1)), on_cpu());
  const auto before = settled(live);
  ASSERT_NE(before, nullptr);
  const view::Command mistakes[] = {view::Grab{9, 1000, 0},
                                    view::Drag{99, {0, 0, 0}},
                                    view::Release{99},
                                    view::Weigh{"none", 1},
                                    view::Weigh{"handles", -1},
                                    view::Weigh{"handles", NAN},
                                    view::Choose{.backend = "abacus"},
                                    view::Drag{1, {1e30, 0, 0}}};
  for (const view::Command& mistake : mistakes) {
    const std::uint64_t version = live.state()->version;
    live.post(mistake);
    ASSERT_TRUE(eventually([&] { return live.state()->version > version; })) << mistake.index();
    EXPECT_FALSE(live.state()->message.empty()) << mistake.index();
  }
  const auto after = live.frame();
  EXPECT_NEAR(after->cost, before->cost, 1e-9);
}

TEST(LiveSolver, ABoundedQueueRefuses) {
  LiveSolver live(view::arap_subject(problems::icosphere(3)), on_cpu());
  int refused = 0;
  for (int k = 0; k < 100'000; ++k) refused += !live.post(view::Undo{});
  EXPECT_GT(refused, 0);
}

TEST(LiveSolver, RandomDragsStayFinite) {
  LiveSolver live(view::arap_subject(problems::icosphere(2)), on_cpu());
  const view::Measured m = view::measure(live, view::turning_script(live, 2),
                                         {.seconds = 3, .warm_up_seconds = 1, .random = 5});
  EXPECT_EQ(m.nonfinite, 0u);
  EXPECT_EQ(m.compiled, 0u);
#ifndef TOPOGRAD_SANITIZED  // in three seconds
  EXPECT_GT(m.solves, 5u);
  EXPECT_LE(view::quantile(m.drag_to_frame, 0.5), 2);
#endif
  EXPECT_LT(m.bytes_after, m.bytes_before + (std::uint64_t{8} << 20U));
  EXPECT_TRUE(live.state()->message.empty()) << live.state()->message;
}

/// Every other subject follows a handle from where it is at rest, stays finite and comes back.
void expect_to_follow(view::Subject subject, std::size_t axis = 2) {
  const std::string what = subject.name;
  LiveSolver live(std::move(subject), on_cpu(20));
  std::shared_ptr<const Frame> frame = live.wait(0, kPatience);
  ASSERT_NE(frame, nullptr) << what << ": " << live.state()->message;
  constexpr std::uint32_t kVertex = 3;
  const double size = view::diagonal_of(live.start());
  live.post(view::Grab{9, kVertex, 0.05 * size});
  ASSERT_TRUE(eventually([&] { return live.state()->handles.contains(9); })) << what;
  view::Point to = live.state()->handles.at(9).position();
  const view::Point from = to;
  to[axis] += 0.2 * size;
  live.post(view::Drag{9, to, 1, true});
  const auto distance = [&](const view::Point& p) {
    const double* at = &frame->positions[3 * kVertex];
    return std::hypot(at[0] - p[0], at[1] - p[1], at[2] - p[2]);
  };
  for (int k = 0; k < 100 && (frame->drag < 1 || distance(to) > 0.05 * size); ++k) {
    frame = live.wait(frame->number, 1);
    if (frame == nullptr) break;
    ASSERT_TRUE(std::isfinite(frame->cost)) << what;
    for (const double x : frame->positions) ASSERT_TRUE(std::isfinite(x)) << what;
  }
  ASSERT_NE(frame, nullptr) << what << ": " << live.state()->message;
  EXPECT_LE(distance(to), 0.05 * size) << what;
  EXPECT_GT(distance(from), 0.1 * size) << what;
  EXPECT_TRUE(live.state()->message.empty()) << what << ": " << live.state()->message;
}

TEST(ViewSubjects, FollowHandles) {
  const TriangleMesh sphere = problems::icosphere(2);
  expect_to_follow(view::smooth_subject(sphere));
  expect_to_follow(view::developable_subject(sphere, problems::Developability::covariance));
  expect_to_follow(view::springs_subject(12));
  PoseGraph graph;
  for (std::uint32_t k = 0; k < 20; ++k) {
    const double angle = 0.3 * k;
    graph.ids.push_back(k);
    graph.poses.push_back({.position = {std::cos(angle), std::sin(angle), 0.1 * k}});
    graph.given.push_back(true);
    graph.fixed.push_back(k == 0);
    if (k == 0) continue;
    PoseGraph::Edge edge{.from = k - 1, .to = k};
    for (std::size_t c = 0; c < 3; ++c)
      edge.measured.position[c] = graph.poses[k].position[c] - graph.poses[k - 1].position[c];
    for (std::size_t c = 0; c < 6; ++c) edge.information[7 * c] = 1;
    graph.edges.push_back(edge);
  }
  expect_to_follow(view::pose_graph_subject(graph, {}));
}

/// Points on a circle whose edges are measured as `stretch` of their lengths, in the plane.
PoseGraph flat_graph(double stretch) {
  PoseGraph graph;
  graph.dimension = 2;
  constexpr std::uint32_t kPoses = 12;
  for (std::uint32_t k = 0; k < kPoses; ++k) {
    const double angle = 0.4 * k;
    graph.ids.push_back(k);
    graph.poses.push_back({.position = {3 * std::cos(angle), 3 * std::sin(angle), 0}});
    graph.given.push_back(true);
    graph.fixed.push_back(k == 0);
    if (k == 0) continue;
    PoseGraph::Edge edge{.from = k - 1, .to = k};
    for (std::size_t c = 0; c < 2; ++c)
      edge.measured.position[c] =
          stretch * (graph.poses[k].position[c] - graph.poses[k - 1].position[c]);
    for (const std::size_t diagonal : {0, 7, 14}) edge.information[diagonal] = 1;
    graph.edges.push_back(edge);
  }
  return graph;
}

TEST(ViewSubjects, GraphsInThePlaneFollowInIt) {
  view::Subject subject = view::pose_graph_subject(flat_graph(1), {});
  EXPECT_EQ(subject.connections.lines.size(), 11u);
  expect_to_follow(std::move(subject), 1);
}

// Without rotations an edge of length l that is measured as 3 l adds ½ ρ(4 l²), where Huber's ρ(s)
// is s up to a², and 2 a √s − a² beyond.
TEST(ViewSubjects, LossesAreThoseOfTheOptions) {
  const PoseGraph graph = flat_graph(3);
  const double length = 2 * 3 * std::sin(0.2), s = 4 * length * length, a = 0.5;
  for (const bool robust : {false, true}) {
    PoseGraphOptions options;
    if (robust) options.loss = Loss::huber(a);
    const view::Subject subject = view::pose_graph_subject(graph, options);
    const double one = robust ? 2 * a * std::sqrt(s) - a * a : s;
    EXPECT_NEAR(Evaluator(*subject.problem, {.backend = Backend::cpu}).cost(), 11 * one / 2,
                1e-12 * one);
  }
}

TEST(ViewSubjects, ScenesKeepWhatIsFixed) {
  const auto bundle = problems::bundle({.cameras = 5, .points = 60, .observations = 300});
  LiveSolver live(view::bundle_subject(*bundle, {.fixed = {"cameras"}}), on_cpu(20));
  const auto first = live.wait(0, kPatience);
  ASSERT_NE(first, nullptr) << live.state()->message;
  constexpr std::uint32_t kVertex = 3;
  const double* at = &live.start()[3 * kVertex];
  live.post(view::Grab{9, kVertex, 0});
  live.post(view::Drag{9, {at[0] + 1, at[1], at[2]}, 1, true});
  ASSERT_TRUE(eventually([&] { return live.frame()->drag == 1 && live.frame()->settled; }));
  const auto last = live.frame();
  EXPECT_NE(last->positions[3 * kVertex], at[0]);
  for (std::size_t k = 3 * 60; k < 3 * 65; ++k) EXPECT_EQ(last->positions[k], live.start()[k]);
}

TEST(ViewSubjects, ProblemFilesShowAnArray) {
  const auto read = [](const char* name) {
    return read_problem_file((source_dir() / "samples/data" / name).string());
  };
  using Lines = std::vector<std::array<std::uint32_t, 2>>;
  view::Subject triangle = view::file_subject(read("triangle.json"), "");
  EXPECT_EQ(triangle.points.size(), 3u);
  EXPECT_EQ(triangle.connections.lines, (Lines{{0, 1}, {0, 2}, {1, 2}}));
  LiveSolver live(std::move(triangle), on_cpu(20));
  const auto last = settled(live);
  ASSERT_NE(last, nullptr) << live.state()->message;
  const auto length = [&](std::size_t a, std::size_t b) {
    const double *p = &last->positions[3 * a], *q = &last->positions[3 * b];
    return std::hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);
  };
  EXPECT_NEAR(length(0, 1), 1, 1e-6);  // the lengths at rest that the file has
  EXPECT_NEAR(length(1, 2), 1, 1e-6);
  EXPECT_NEAR(length(2, 0), 1.5, 1e-6);
  // Single numbers are heights, which can be pulled although all points are in one place.
  LiveSolver curve(view::file_subject(read("curve_fit.json"), "c"), on_cpu(20));
  const auto fit = settled(curve);
  ASSERT_NE(fit, nullptr) << curve.state()->message;
  EXPECT_NEAR(fit->positions[1], 0.0935, 0.05);  // ln of the first point at x = 0, 1.098
  curve.post(view::Grab{1, 0, 0});
  curve.post(view::Drag{1, {0, 1, 0}, 1, true});
  EXPECT_TRUE(eventually([&] { return curve.frame()->positions[1] > 0.6; }))
      << curve.frame()->positions[1] << "; " << curve.state()->message;
  try {
    view::file_subject(read("curve_fit.json"), "slope");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "view: expected --array to be one of m, c, got \"slope\"");
  }
}

TEST(ViewSubjects, ScenesShowTheirCameras) {
  const problems::BundleOptions options{.cameras = 5, .points = 60, .observations = 300};
  const auto bundle = problems::bundle(options);
  LiveSolver live(view::bundle_subject(*bundle), on_cpu(20));
  ASSERT_EQ(live.start().size(), 3u * 65);
  for (std::size_t camera = 0; camera < 5; ++camera) {
    const std::array<double, 3> center = bundle->center(camera);
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_DOUBLE_EQ(live.start()[3 * (60 + camera) + c], center[c]);
  }
  const auto last = settled(live);
  ASSERT_NE(last, nullptr) << live.state()->message;
  EXPECT_LT(last->cost, 1e-10);  // without noise the observations can be met
}

/// The first message of a kind to a client of a service, as its server would send them.
class Watcher {
 public:
  Watcher(view::Service& service, view::ClientId id) : service_(&service), id_(id) {
    service.joined(id);
  }
  /// The newest state that was sent.
  std::string state() {
    take();
    return state_;
  }
  /// Takes all messages; acknowledges frames if `draws`.
  void take(bool draws = true) {
    for (view::Message m = service_->next(id_); m.body != nullptr; m = service_->next(id_)) {
      if (!m.binary) {
        state_ = *m.body;
        continue;
      }
      const view::ReadFrame frame = view::read_frame(*m.body, frames == 0 ? nullptr : &last.points);
      EXPECT_GT(frame.number, last.number);
      last = frame;
      ++frames;
      if (draws)
        service_->received(id_, R"({"do":"drawn","frame":)" + std::to_string(last.number) + "}");
    }
  }
  int frames = 0;
  view::ReadFrame last;

 private:
  view::Service* service_;
  view::ClientId id_;
  std::string state_;
};

TEST(ViewService, OneWritesTheOthersWatch) {
  view::Service service(view::arap_subject(problems::icosphere(1)), on_cpu());
  Watcher writer(service, 1), watcher(service, 2);
  EXPECT_NE(writer.state().find(R"("writes":true)"), std::string::npos) << writer.state();
  EXPECT_NE(watcher.state().find(R"("writes":false,"writer":true)"), std::string::npos);
  ASSERT_NE(settled(service.live()), nullptr);
  EXPECT_TRUE(service.received(2, R"({"do":"pause"})"));
  EXPECT_TRUE(service.received(1, R"({"do":"release","handle":1})"));
  ASSERT_TRUE(eventually([&] { return service.live().state()->handles.size() == 1; }));
  EXPECT_FALSE(service.live().state()->paused);
  EXPECT_TRUE(service.received(2, R"({"do":"claim"})"));
  EXPECT_NE(watcher.state().find(R"("writes":false)"), std::string::npos);
  service.left(1);
  EXPECT_NE(watcher.state().find(R"("writer":false)"), std::string::npos);
  EXPECT_TRUE(service.received(2, R"({"do":"claim"})"));
  EXPECT_NE(watcher.state().find(R"("writes":true)"), std::string::npos);
  EXPECT_TRUE(service.received(2, R"({"do":"pause"})"));
  EXPECT_TRUE(eventually([&] { return service.live().state()->paused; }));
  EXPECT_FALSE(service.received(2, "nonsense"));
  EXPECT_FALSE(service.received(77, R"({"do":"pause"})"));
}

TEST(ViewService, SlowClientsSkipFramesAndGetTheNewest) {
  view::Service service(view::arap_subject(problems::icosphere(2)), on_cpu(1));
  Watcher quick(service, 1), slow(service, 2);
  for (int k = 1; k <= 40; ++k) {
    service.live().post(view::Drag{2, {0.02 * k, 1, 0}, static_cast<std::uint64_t>(k), false});
    ASSERT_NE(service.live().wait(quick.last.number, kPatience), nullptr);
    quick.take();
    slow.take(false);
  }
  EXPECT_LE(slow.frames, static_cast<int>(view::Service::kFramesAhead));
  EXPECT_GT(quick.frames, 20);
  const auto last = settled(service.live());
  ASSERT_NE(last, nullptr);
  quick.take();
  // It has drawn the second frame, so it gets the newest, as a difference to what it has.
  service.received(2, R"({"do":"drawn","frame":)" + std::to_string(slow.last.number) + "}");
  slow.take(false);
  EXPECT_EQ(slow.last.number, last->number);
  EXPECT_EQ(slow.last.points.cells, quick.last.points.cells);
  for (std::size_t k = 0; k < last->positions.size(); ++k)
    ASSERT_NEAR(slow.last.points.grid.origin[k % 3] +
                    slow.last.points.grid.step * slow.last.points.cells[k],
                last->positions[k], 0.5001 * slow.last.points.grid.step);
}

TEST(ViewService, ServesItsFiles) {
  view::Service service(view::arap_subject(problems::icosphere(1)), on_cpu());
  ASSERT_NE(settled(service.live()), nullptr);
  const auto text = [&](std::string_view path) {
    const view::Resource found = service.file(path);
    return found.body == nullptr ? std::string("missing") : *found.body;
  };
  EXPECT_NE(text("").find("<!doctype html>"), std::string::npos);
  EXPECT_NE(text("app.js").find("./stage.js"), std::string::npos);
  EXPECT_GT(text("three.min.js").size(), 400'000u);
  EXPECT_NE(text("scene.json").find(R"("points":42)"), std::string::npos);
  EXPECT_EQ(text("geometry.bin").size(), 12u + 12 * 42 + 12 * 80);
  EXPECT_NE(text("topologies.txt").find("handle"), std::string::npos);
  EXPECT_NE(text("kernels.txt").find("void main()"), std::string::npos);
  EXPECT_NE(text("report.txt").find("Topograd solver report"), std::string::npos);
  const TriangleMesh mesh = parse_mesh(text("mesh.obj"), MeshFormat::obj, "mesh.obj");
  EXPECT_EQ(mesh.positions, service.live().frame()->positions);
  EXPECT_EQ(mesh.triangles, service.live().subject().connections.triangles);
  const TriangleMesh same = parse_mesh(text("mesh.ply"), MeshFormat::ply, "mesh.ply");
  EXPECT_EQ(same.positions, mesh.positions);
  EXPECT_EQ(text("other"), "missing");
  EXPECT_EQ(text("../app.js"), "missing");
  // Nothing of the page is loaded from elsewhere.
  for (const char* file : {"", "app.js", "stage.js", "connection.js", "plots.js", "style.css"})
    EXPECT_EQ(text(file).find("https://"), std::string::npos) << file;
}

}  // namespace
}  // namespace topograd::test
