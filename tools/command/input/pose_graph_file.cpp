// Pose graphs of g2o files as problems of the command.
#include "pose_graph_file.hpp"

#include "../arguments/output.hpp"
#include "loss_argument.hpp"
#include "shown_graph.hpp"

#include "../../../api/formats/disjoint_sets.hpp"
#include "../../../api/formats/g2o.hpp"
#include "../../../api/formats/packed_text.hpp"
#include "../../../api/formats/pose_graph_gnc.hpp"
#include "../../../api/formats/pose_graph_problem.hpp"
#include "../../../api/formats/pose_graph_start.hpp"
#include "../../../ir/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

namespace topograd::command {
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
  if (skipped.empty()) return;
  const PoseGraph& graph = input.graph;
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

Input read(const ProblemArguments& arguments) {
  if (arguments.file.empty())
    throw Error(ErrorCode::InvalidArgument, "pose-graph: expected a file");
  Input input;
  input.graph =
      read_g2o(input_file(arguments.file),
               {.skip_unknown = arguments.skip_unknown, .strict = arguments.strict}, &input.notes);
  check_loops(input, arguments.file);
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
  SolverOptions options() const override { return PoseGraphProblem::solver_options(); }
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
           number(std::sqrt(2 * cost / static_cast<double>(input_.graph.edges.size())));
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
  std::vector<std::size_t> worst(const PoseGraphErrors& errors) const;
  ordered_json row(const PoseGraph::Edge& edge) const;
  std::string row_text(const PoseGraph::Edge& edge) const;

  Input input_;
  std::string start_;
  PoseGraphProblem problem_;
  PoseGraphErrors before_;
  ShownGraph shown_;
};

Shown GraphProblem::drawn(const PoseGraph& graph) const {
  std::vector<double> limits = pose_graph_errors(drawn_before(), problem_.objective()).edges;
  std::ranges::sort(limits);
  const double most =
      limits[static_cast<std::size_t>(kBright * static_cast<double>(limits.size() - 1))];
  std::vector<double> errors = pose_graph_errors(graph, problem_.objective()).edges;
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

std::vector<std::size_t> GraphProblem::worst(const PoseGraphErrors& errors) const {
  std::vector<std::size_t> order(errors.edges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto last = order.begin() + static_cast<std::ptrdiff_t>(std::min(kMostWorst, order.size()));
  std::ranges::partial_sort(order, last, std::ranges::greater{},
                            [&](std::size_t k) { return errors.edges[k]; });
  order.erase(last, order.end());
  return order;
}

ordered_json GraphProblem::row(const PoseGraph::Edge& edge) const {
  return {{"line", edge.line},
          {"from", input_.graph.ids[edge.from]},
          {"to", input_.graph.ids[edge.to]}};
}

std::string GraphProblem::row_text(const PoseGraph::Edge& edge) const {
  return "line " + std::to_string(edge.line) + ", edge from " +
         std::to_string(input_.graph.ids[edge.from]) + " to " +
         std::to_string(input_.graph.ids[edge.to]);
}

void GraphProblem::describe_answer(ordered_json& report) const {
  const PoseGraphErrors after = problem_.errors();
  const PoseGraph& graph = input_.graph;
  ordered_json& out = report["pose_graph"];
  out = {{"dimension", graph.dimension},
         {"poses", graph.size()},
         {"edges", graph.edges.size()},
         {"objective", name(problem_.objective())},
         {"start", start_},
         {"value", after.objective},
         {"value_before", before_.objective},
         {"chi2", after.chi2},
         {"chi2_before", before_.chi2}};
  for (const char* list : {"worst", "pieces", "duplicates", "skipped"})
    out[list] = ordered_json::array();
  for (const std::size_t k : worst(after)) {
    out["worst"].push_back(row(graph.edges[k]));
    out["worst"].back()["error"] = after.edges[k];
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
  if (!input_.gnc) return;
  out["gnc"] = {{"threshold", input_.gnc->threshold},
                {"rounds", input_.gnc->rounds},
                {"rejected", ordered_json::array()}};
  for (const PoseGraph::Edge& edge : input_.gnc->rejected)
    out["gnc"]["rejected"].push_back(row(edge));
}

std::vector<std::string> GraphProblem::answer_lines() const {
  const PoseGraphErrors after = problem_.errors();
  const PoseGraph& graph = input_.graph;
  std::vector<std::string> lines = {
      "Pose graph " + std::string(graph.dimension == 2 ? "in the plane" : "in space") + ", " +
          count(graph.size(), "pose", "poses") + ", " + count(graph.edges.size(), "edge", "edges"),
      "  " + std::string(name(problem_.objective())) + " objective  " + number(after.objective) +
          ", from " + number(before_.objective) + " (start: " + start_ + ")",
      "  χ²  " + number(after.chi2) + ", from " + number(before_.chi2)};
  if (input_.gnc) {
    lines.push_back("  graduated non-convexity rejects " +
                    count(input_.gnc->rejected.size(), "edge", "edges") + " that add more than " +
                    number(input_.gnc->threshold));
  }
  const std::vector<Piece> all = pieces();
  for (std::size_t k = 0; all.size() > 1 && k < all.size(); ++k) {
    const std::vector<std::int64_t>& fixed = all[k].fixed;
    lines.push_back("  piece " + std::to_string(k + 1) + " of " + std::to_string(all.size()) +
                    ": " + count(all[k].poses, "pose", "poses") + ", pose " +
                    std::to_string(fixed[0]) + (fixed.size() > 1 ? " and others stay" : " stays"));
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
    lines.push_back("  " + count(indefinite.size(), "edge has", "edges have") +
                    " an information matrix that is not positive definite; the first is that of "
                    "line " +
                    std::to_string(indefinite[0]) + "; only its diagonal blocks are read");
  }
  for (const G2oNotes::Skipped& skipped : input_.notes.skipped)
    lines.push_back("  skipped: " + count(skipped.lines, "line", "lines") + " of " + skipped.tag);
  lines.push_back("  edges that add most to the objective:");
  for (const std::size_t k : worst(after))
    lines.push_back("  " + number(after.edges[k]) + "  " + row_text(graph.edges[k]));
  return lines;
}

}  // namespace

std::unique_ptr<NamedProblem> make_pose_graph(const ProblemArguments& arguments) {
  return std::make_unique<GraphProblem>(arguments);
}

PoseGraph pose_graph_at_start(const ProblemArguments& arguments) {
  return with_start(read(arguments).graph, parse_pose_start(arguments.start));
}

}  // namespace topograd::command
