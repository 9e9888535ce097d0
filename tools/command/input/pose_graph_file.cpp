// Pose graphs of g2o files as problems of the command.
#include "pose_graph_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../../../api/formats/disjoint_sets.hpp"
#include "../../../api/formats/g2o.hpp"
#include "../../../api/formats/packed_text.hpp"
#include "../../../api/formats/pose_graph.hpp"
#include "../../../api/formats/pose_graph_gnc.hpp"
#include "../../../api/formats/pose_graph_problem.hpp"
#include "../../../api/formats/pose_graph_start.hpp"
#include "../../../ir/error.hpp"
#include "../../draw/scene.hpp"
#include "../../problems/mesh.hpp"
#include "../arguments/output.hpp"
#include "../arguments/shared_arguments.hpp"

namespace topograd::command {

/// Edges of a graph and sightings of landmarks that are drawn, as thin bars. They are chosen once,
/// so that pictures before and after a solve show the same ones.
class ShownGraph {
 public:
  /// At most kMostShown edges, evenly chosen.
  explicit ShownGraph(const PoseGraph& graph);

  static constexpr std::size_t kMostShown = 20'000;

  /// They are between the graph's present poses and landmarks. Graphs of the plane lie in that of
  /// the picture, others stand on their x and y.
  problems::TriangleMesh mesh(const PoseGraph& graph) const;
  /// For each vertex of mesh() the number of its edge; sightings follow edges.
  std::vector<double> values(std::span<const double> edges) const;

 private:
  std::vector<std::uint32_t> edges_;
};

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostWorst = 10;
constexpr double kBright = 0.95;  // share of the edges at the start that no picture shows brighter

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.8g", value);
  return text.data();
}

std::string count(std::size_t number, const std::string& one, const std::string& more) {
  return std::to_string(number) + " " + (number == 1 ? one : more);
}

/// Everything that is known of the file before the solve.
struct Input {
  G2oNotes notes;
  PoseGraph graph;               ///< as the file has it, without rejected edges
  std::optional<GncResult> gnc;  ///< without its graph
};

/// Throws Error{InvalidArgument} if edges were skipped and the others form no loop: then poses meet
/// all of them, and there is nothing to minimise.
void check_loops(const Input& input, const std::string& file) {
  std::string skipped;
  for (const G2oNotes::Skipped& lines : input.notes.skipped)
    if (lines.tag.starts_with("EDGE"))
      skipped +=
          (skipped.empty() ? "" : " and ") + std::to_string(lines.lines) + " of " + lines.tag;
  const PoseGraph& graph = input.graph;
  if (skipped.empty() || graph.measurements() != graph.edges.size()) return;
  DisjointSets sets(graph.size());
  const auto first = std::ranges::find(graph.fixed, true) - graph.fixed.begin();
  for (std::uint32_t k = 0; k < graph.size(); ++k)
    if (graph.fixed[k]) sets.join(static_cast<std::uint32_t>(first), k);
  for (const PoseGraph::Edge& edge : graph.edges)
    if (!sets.join(edge.from, edge.to)) return;
  throw Error(ErrorCode::InvalidArgument,
              file + ": expected edges with a loop, got " +
                  count(graph.edges.size(), "edge", "edges") +
                  " without one after --skip-unknown skipped " + skipped +
                  ": poses meet all of them, and nothing is left to minimise");
}

/// Says once on the standard error output, in every mode, what --skip-unknown skipped.
void tell_skipped(const G2oNotes& notes, const std::string& file) {
  static std::atomic<bool> reported = false;
  std::string tags;
  for (const G2oNotes::Skipped& skipped : notes.skipped)
    if (!skipped.known)
      tags +=
          (tags.empty() ? "" : ", ") + count(skipped.lines, "line", "lines") + " of " + skipped.tag;
  if (!tags.empty() && !reported.exchange(true))
    std::fprintf(stderr, "%s: --skip-unknown skipped %s\n", file.c_str(), tags.c_str());
}

Input read(const ProblemArguments& arguments) {
  if (arguments.file.empty())
    throw Error(ErrorCode::InvalidArgument, "pose-graph: expected a file");
  Input input;
  input.graph =
      read_g2o(input_file(arguments.file),
               {.skip_unknown = arguments.skip_unknown, .strict = arguments.strict}, &input.notes);
  check_loops(input, arguments.file);
  tell_skipped(input.notes, arguments.file);
  if (!arguments.gnc) return input;
  input.gnc = reject_false_edges(input.graph, parse_pose_objective(arguments.objective),
                                 {.threshold = arguments.gnc_threshold});
  input.graph.edges = std::move(input.gnc->graph.edges);
  return input;
}

class GraphProblem final : public NamedProblem {
 public:
  explicit GraphProblem(const ProblemArguments& arguments)
      : input_(read(arguments)),
        start_(arguments.start),
        problem_(with_start(input_.graph, parse_pose_start(start_)),
                 {.objective = parse_pose_objective(arguments.objective),
                  .loss = parse_loss(arguments.loss),
                  .share = arguments.shares == nullptr ? Share{} : arguments.shares->share()}),
        before_(problem_.errors()),
        shown_(input_.graph) {}

  Problem& problem() override { return problem_.problem(); }
  SolverOptions options() const override { return problem_.fitting_options(); }
  Writers writers() const override { return Writers::one; }
  void check_out(const std::string& /*path*/) const override {}
  void write(const std::string& path) const override {
    write_text_file(path, g2o_text(problem_.graph()));
  }
  problems::TriangleMesh mesh() const override { return shown_.mesh(problem_.graph()); }
  Shown shown_before() const override;
  Shown shown() const override;
  std::string legend() const override {
    return "Colour: the error of an edge, as a share of the largest ones before.";
  }
  void describe_answer(ordered_json& report) const override;
  std::vector<std::string> answer_lines() const override;
  /// In units of the standard deviations that the information matrices state.
  std::string error_text(double cost) const override {
    return "RMS edge error " +
           number(std::sqrt(2 * cost / static_cast<double>(input_.graph.measurements())));
  }

 private:
  /// A connected part, and the poses in it that stay.
  struct Piece {
    std::size_t poses = 0;
    std::vector<std::int64_t> fixed;
  };
  std::vector<Piece> pieces() const;
  /// The graph of the picture before the solve: with poses of the file or of its odometry.
  PoseGraph drawn_before() const {
    return with_start(input_.graph,
                      input_.graph.has_start() ? PoseStart::file : PoseStart::odometry);
  }
  Shown drawn(const PoseGraph& graph) const;
  /// A measurement, and what it adds to the objective.
  struct Measured {
    double error = 0;
    std::size_t line = 0;
    std::optional<std::int64_t> from;  ///< not of priors
    std::int64_t to = 0;
    const char* kind = "edge";
  };
  std::vector<Measured> worst(const PoseGraphErrors& errors) const;

  Input input_;
  std::string start_;
  PoseGraphProblem problem_;
  PoseGraphErrors before_;
  ShownGraph shown_;
};

/// Of edges, then of sightings.
std::vector<double> drawn_errors(const PoseGraph& graph, PoseObjective objective) {
  PoseGraphErrors errors = pose_graph_errors(graph, objective);
  errors.edges.insert(errors.edges.end(), errors.sightings.begin(), errors.sightings.end());
  return errors.edges;
}

Shown GraphProblem::drawn(const PoseGraph& graph) const {
  std::vector<double> limits = drawn_errors(drawn_before(), problem_.objective());
  if (limits.empty()) return {shown_.mesh(graph), {}, {}};
  std::ranges::sort(limits);
  const double most =
      limits[static_cast<std::size_t>(kBright * static_cast<double>(limits.size() - 1))];
  std::vector<double> errors = drawn_errors(graph, problem_.objective());
  for (double& error : errors) error = std::sqrt(std::min(error, most));
  return {shown_.mesh(graph), shown_.values(errors), {}};
}

Shown GraphProblem::shown_before() const {
  const PoseGraph graph = drawn_before();
  Shown shown = drawn(graph);
  shown.caption = (graph.has_start() ? "the file: cost " : "odometry: cost ") +
                  number(0.5 * pose_graph_errors(graph, problem_.objective()).objective);
  return shown;
}

Shown GraphProblem::shown() const { return drawn(problem_.graph()); }

std::vector<GraphProblem::Piece> GraphProblem::pieces() const {
  const std::vector<std::uint32_t> numbers = input_.graph.pieces();
  const std::vector<bool> anchors = input_.graph.anchors();
  std::vector<Piece> out;
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    if (numbers[k] == out.size()) out.emplace_back();
    Piece& piece = out[numbers[k]];
    ++piece.poses;
    if (anchors[k]) piece.fixed.push_back(input_.graph.ids[k]);
  }
  return out;
}

std::vector<GraphProblem::Measured> GraphProblem::worst(const PoseGraphErrors& errors) const {
  const PoseGraph& graph = input_.graph;
  const auto id_of = [&](const PoseGraph::Prior& prior) {
    switch (prior.of) {
      case PoseGraph::Prior::Of::landmark: return graph.landmarks[prior.edge.to].id;
      case PoseGraph::Prior::Of::switched: return graph.switches[prior.edge.to].id;
      default: return graph.ids[prior.edge.to];
    }
  };
  std::vector<Measured> all;
  for (std::size_t k = 0; k < graph.edges.size(); ++k) {
    const PoseGraph::Edge& edge = graph.edges[k];
    all.push_back({errors.edges[k], edge.line, graph.ids[edge.from], graph.ids[edge.to]});
  }
  for (std::size_t k = 0; k < graph.sightings.size(); ++k) {
    const PoseGraph::Edge& edge = graph.sightings[k].edge;
    all.push_back({errors.sightings[k], edge.line, graph.ids[edge.from],
                   graph.landmarks[edge.to].id, "sighting"});
  }
  for (std::size_t k = 0; k < graph.priors.size(); ++k) {
    const PoseGraph::Prior& prior = graph.priors[k];
    all.push_back({errors.priors[k], prior.edge.line, {}, id_of(prior), "prior"});
  }
  const auto last = all.begin() + static_cast<std::ptrdiff_t>(std::min(kMostWorst, all.size()));
  std::ranges::partial_sort(all, last, std::ranges::greater{}, &Measured::error);
  all.erase(last, all.end());
  return all;
}

ordered_json edge_row(const PoseGraph& graph, const PoseGraph::Edge& edge) {
  return {{"line", edge.line}, {"from", graph.ids[edge.from]}, {"to", graph.ids[edge.to]}};
}

/// ", 69 landmarks, 3812 sightings, 1 prior", of what the graph has.
std::string more_counts(const PoseGraph& graph) {
  std::string out;
  if (!graph.landmarks.empty())
    out += ", " + count(graph.landmarks.size(), "landmark", "landmarks") + ", " +
           count(graph.sightings.size(), "sighting", "sightings");
  if (!graph.priors.empty()) out += ", " + count(graph.priors.size(), "prior", "priors");
  return out;
}

/// Switches that turn their edges off rather than on.
std::size_t switched_off(const PoseGraph& graph) {
  return static_cast<std::size_t>(std::ranges::count_if(
      graph.switches, [](const PoseGraph::Switch& one) { return one.value < 0.5; }));
}

void GraphProblem::describe_answer(ordered_json& report) const {
  const PoseGraphErrors after = problem_.errors();
  const PoseGraph& graph = input_.graph;
  ordered_json& out = report["pose_graph"];
  out = {{"dimension", graph.dimension},
         {"poses", graph.size()},
         {"edges", graph.edges.size()},
         {"landmarks", graph.landmarks.size()},
         {"switches", graph.switches.size()},
         {"switched_off", switched_off(problem_.graph())},
         {"sightings", graph.sightings.size()},
         {"priors", graph.priors.size()},
         {"objective", name(problem_.objective())},
         {"start", start_},
         {"value", after.objective},
         {"value_before", before_.objective},
         {"chi2", after.chi2},
         {"chi2_before", before_.chi2}};
  for (const char* list : {"worst", "pieces", "duplicates", "skipped"})
    out[list] = ordered_json::array();
  for (const Measured& one : worst(after)) {
    ordered_json row = {{"line", one.line}};
    if (one.from) row["from"] = *one.from;
    row["to"] = one.to;
    row["error"] = one.error;
    out["worst"].push_back(std::move(row));
  }
  for (const Piece& piece : pieces())
    out["pieces"].push_back({{"poses", piece.poses}, {"fixed", piece.fixed}});
  for (const G2oNotes::Duplicate& edge : input_.notes.duplicates) {
    out["duplicates"].push_back({{"line", edge.line},
                                 {"first_line", edge.first_line},
                                 {"from", edge.from},
                                 {"to", edge.to}});
  }
  for (const G2oNotes::Skipped& skipped : input_.notes.skipped)
    out["skipped"].push_back({{"tag", skipped.tag}, {"lines", skipped.lines}});
  if (!input_.notes.information_order.empty())
    out["information_order"] = input_.notes.information_order;
  if (!input_.gnc) return;
  out["gnc"] = {{"threshold", input_.gnc->threshold},
                {"rounds", input_.gnc->rounds},
                {"rejected", ordered_json::array()}};
  for (const PoseGraph::Edge& edge : input_.gnc->rejected)
    out["gnc"]["rejected"].push_back(edge_row(graph, edge));
}

std::vector<std::string> GraphProblem::answer_lines() const {
  const PoseGraphErrors after = problem_.errors();
  const PoseGraph& graph = input_.graph;
  std::vector<std::string> lines = {
      "Pose graph " + std::string(graph.dimension == 2 ? "in the plane" : "in space") + ", " +
          count(graph.size(), "pose", "poses") + ", " + count(graph.edges.size(), "edge", "edges") +
          more_counts(graph),
      "  " + std::string(name(problem_.objective())) + " objective  " + number(after.objective) +
          ", from " + number(before_.objective) + " (start: " + start_ + ")",
      "  χ²  " + number(after.chi2) + ", from " + number(before_.chi2)};
  if (input_.gnc) {
    lines.push_back("  graduated non-convexity rejects " +
                    count(input_.gnc->rejected.size(), "edge", "edges") + " that add more than " +
                    number(input_.gnc->threshold));
  }
  if (!graph.switches.empty())
    lines.push_back("  switches  " + std::to_string(graph.switches.size()) + ", " +
                    std::to_string(switched_off(problem_.graph())) + " below 0.5");
  const std::vector<Piece> all = pieces();
  for (std::size_t k = 0; all.size() > 1 && k < all.size(); ++k) {
    const std::vector<std::int64_t>& fixed = all[k].fixed;
    // Priors and fixed landmarks hold a piece, too.
    const std::string held = fixed.empty() ? "none stays"
                                           : "pose " + std::to_string(fixed[0]) +
                                                 (fixed.size() > 1 ? " and others stay" : " stays");
    lines.push_back("  piece " + std::to_string(k + 1) + " of " + std::to_string(all.size()) +
                    ": " + count(all[k].poses, "pose", "poses") + ", " + held);
  }
  for (const G2oNotes::Duplicate& edge : input_.notes.duplicates) {
    lines.push_back("  line " + std::to_string(edge.line) + " repeats the edge of line " +
                    std::to_string(edge.first_line) + ", from " + std::to_string(edge.from) +
                    " to " + std::to_string(edge.to) + ": it counts twice");
  }
  if (const auto& without = input_.notes.without_vertex; !without.empty()) {
    lines.push_back("  " + count(without.size(), "pose has", "poses have") +
                    " no vertex, though others have one; the first is pose " +
                    std::to_string(without[0].pose) + " of line " +
                    std::to_string(without[0].line));
  }
  if (const auto& indefinite = input_.notes.indefinite; !indefinite.empty()) {
    lines.push_back(
        "  " + count(indefinite.size(), "edge has", "edges have") +
        " an information matrix that is not positive semidefinite; the first is that of "
        "line " +
        std::to_string(indefinite[0]) + "; only its diagonal blocks are read");
  }
  for (const G2oNotes::Skipped& skipped : input_.notes.skipped)
    lines.push_back("  skipped: " + count(skipped.lines, "line", "lines") + " of " + skipped.tag);
  if (!input_.notes.information_order.empty())
    lines.push_back("  information matrices in the order " + input_.notes.information_order);
  lines.push_back(
      "  " + std::string(graph.measurements() == graph.edges.size() ? "edges" : "measurements") +
      " that add most to the objective:");
  for (const Measured& one : worst(after)) {
    lines.push_back("  " + number(one.error) + "  line " + std::to_string(one.line) + ", " +
                    one.kind + (one.from ? " from " + std::to_string(*one.from) : "") +
                    (one.from ? " to " : " of ") + std::to_string(one.to));
  }
  return lines;
}

}  // namespace

std::unique_ptr<NamedProblem> make_pose_graph(const ProblemArguments& arguments) {
  return std::make_unique<GraphProblem>(arguments);
}

PoseGraph pose_graph_at_start(const ProblemArguments& arguments) {
  return with_start(read(arguments).graph, parse_pose_start(arguments.start));
}

namespace {

using draw::Vec3;

constexpr double kThickness = 0.0022;     // of a bar, as a share of the graph's diagonal
constexpr std::size_t kCornersOfBar = 6;  // of a bar: three at each end

Vec3 position_of(const Pose& pose, int dimension) {
  const auto& [x, y, z] = pose.position;
  return dimension == 2 ? draw::on_sheet(x, y) : Vec3{x, z, -y};
}

double diagonal(const PoseGraph& graph) {
  double squares = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    const auto at = [d](const Pose& pose) { return pose.position[d]; };
    const auto [low, high] = std::ranges::minmax(graph.poses, {}, at);
    squares += (at(high) - at(low)) * (at(high) - at(low));
  }
  return std::sqrt(squares);
}

Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

Vec3 with_length(const Vec3& a, double length) {
  const double now = std::hypot(a[0], a[1], a[2]);
  if (now == 0) return {length, 0, 0};
  return {a[0] * length / now, a[1] * length / now, a[2] * length / now};
}

/// A prism from a to b with three sides.
void add_bar(problems::TriangleMesh& mesh, const Vec3& a, const Vec3& b, double radius) {
  const Vec3 along = {b[0] - a[0], b[1] - a[1], b[2] - a[2]};
  const std::size_t least = static_cast<std::size_t>(
      std::ranges::min_element(along, {}, [](double x) { return std::abs(x); }) - along.begin());
  Vec3 axis{};
  axis[least] = 1;
  const Vec3 across = with_length(cross(along, axis), radius);
  const Vec3 other = with_length(cross(along, across), radius);
  const auto first = static_cast<std::uint32_t>(mesh.vertex_count());
  for (const Vec3& end : {a, b}) {
    for (const auto& [u, v] : {std::pair{1.0, 0.0}, {-0.5, 0.866}, {-0.5, -0.866}})
      for (std::size_t d = 0; d < 3; ++d)
        mesh.positions.push_back(end[d] + u * across[d] + v * other[d]);
  }
  for (std::uint32_t k = 0; k < 3; ++k) {
    const std::uint32_t l = (k + 1) % 3;
    mesh.triangles.push_back({first + k, first + l, first + 3 + k});
    mesh.triangles.push_back({first + l, first + 3 + l, first + 3 + k});
  }
}

}  // namespace

ShownGraph::ShownGraph(const PoseGraph& graph) {
  const std::size_t all = graph.edges.size() + graph.sightings.size();
  const std::size_t step = 1 + (all == 0 ? 0 : (all - 1) / kMostShown);
  for (std::size_t k = 0; k < all; k += step) edges_.push_back(static_cast<std::uint32_t>(k));
}

problems::TriangleMesh ShownGraph::mesh(const PoseGraph& graph) const {
  const double radius = kThickness * diagonal(graph);
  problems::TriangleMesh mesh;
  for (const std::uint32_t k : edges_) {
    const bool sighting = k >= graph.edges.size();
    const PoseGraph::Edge& edge =
        sighting ? graph.sightings[k - graph.edges.size()].edge : graph.edges[k];
    const Pose to = sighting ? Pose{graph.landmarks[edge.to].position} : graph.poses[edge.to];
    add_bar(mesh, position_of(graph.poses[edge.from], graph.dimension),
            position_of(to, graph.dimension), radius);
  }
  return mesh;
}

std::vector<double> ShownGraph::values(std::span<const double> edges) const {
  std::vector<double> values;
  for (const std::uint32_t k : edges_) values.insert(values.end(), kCornersOfBar, edges[k]);
  return values;
}

}  // namespace topograd::command
