// Pose graphs from and to g2o files.
#include "g2o.hpp"

#include "packed_text.hpp"
#include "pose_graph_weights.hpp"
#include "word_reader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace topograd {
namespace {

constexpr std::size_t kInformationWidth = 6;

struct Tag {
  std::string_view name;
  int dimension;  ///< 0: either
  bool edge;
};
constexpr std::array<Tag, 5> kTags = {{{"VERTEX_SE2", 2, false},
                                       {"EDGE_SE2", 2, true},
                                       {"VERTEX_SE3:QUAT", 3, false},
                                       {"EDGE_SE3:QUAT", 3, true},
                                       {"FIX", 0, false}}};

const Tag* find_tag(std::string_view name) {
  for (const Tag& tag : kTags)
    if (tag.name == name) return &tag;
  return nullptr;
}

/// Places of sensors: only edges of tags that are not known refer to them.
constexpr std::string_view kParameters = "PARAMS_";

/// "A, B or C".
std::string tag_names() {
  std::string names(kTags[0].name);
  for (std::size_t k = 1; k < kTags.size(); ++k)
    names.append(k + 1 < kTags.size() ? ", " : " or ").append(kTags[k].name);
  return names;
}

class G2oReader {
 public:
  G2oReader(std::string_view text, const std::string& name, const G2oOptions& options)
      : reader_(text, name), options_(options) {}

  PoseGraph read() {
    for (bool first = true; first || reader_.next_line(); first = false) {
      const std::string_view word = reader_.word_of_line();
      if (!word.empty() && !word.starts_with('#')) record(word);
    }
    if (graph_.edges.empty()) reader_.fail("expected edges, got none" + skipped_text());
    check_fixed();
    if (options_.strict) check_pieces();
    note_missing_vertices();
    return std::move(graph_);
  }

  G2oNotes notes() const {
    G2oNotes notes;
    for (const auto& [tag, lines] : skipped_) notes.skipped.push_back({tag, lines});
    notes.duplicates = duplicates_;
    notes.without_vertex = without_vertex_;
    notes.indefinite = indefinite_;
    return notes;
  }

 private:
  void record(std::string_view word) {
    const Tag* tag = find_tag(word);
    if (tag == nullptr) return skip(word);
    if (tag->dimension != 0) set_dimension(*tag);
    if (tag->edge) return edge();
    tag->dimension == 0 ? fix() : vertex();
    end_line();
  }

  void skip(std::string_view word) {
    const std::string tag(word.substr(0, 40));
    if (!options_.skip_unknown && !word.starts_with(kParameters)) {
      reader_.fail("expected " + tag_names() + ", got \"" + tag + "\"");
    }
    ++skipped_[tag];
  }

  /// "; skipped: 2 lines of A, 1 of B"; empty if nothing was skipped.
  std::string skipped_text() const {
    std::string text;
    for (const auto& [tag, lines] : skipped_)
      text += (text.empty() ? "; skipped lines: " : ", ") + std::to_string(lines) + " of " + tag;
    return text;
  }

  void set_dimension(const Tag& tag) {
    if (dimension_ && *dimension_ != tag.dimension) {
      reader_.fail("expected poses of " + std::to_string(*dimension_) + " dimensions, got " +
                   std::string(tag.name));
    }
    dimension_ = graph_.dimension = tag.dimension;
  }

  std::uint32_t pose() {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const auto id = static_cast<std::int64_t>(reader_.index_of_line("the number of a pose", kMost));
    const auto [found, fresh] =
        numbers_.emplace(id, static_cast<std::uint32_t>(graph_.poses.size()));
    if (fresh) {
      graph_.ids.push_back(id);
      first_lines_.push_back(reader_.line());
      graph_.poses.emplace_back();
      graph_.given.push_back(false);
      graph_.fixed.push_back(false);
    }
    return found->second;
  }

  Pose transform() {
    const auto next = [&](const char* what) { return reader_.number_of_line(what); };
    if (graph_.dimension == 2) {
      const double x = next("x"), y = next("y");
      return Pose::planar(x, y, next("an angle"));
    }
    Pose pose;
    for (double& x : pose.position) x = next("a coordinate");
    for (const std::size_t k : {1, 2, 3, 0}) pose.rotation[k] = next("a number of a quaternion");
    double squares = 0;
    for (const double q : pose.rotation) squares += q * q;
    if (!(squares > 0 && std::isfinite(squares)))
      reader_.fail("expected a quaternion of a length > 0");
    for (double& q : pose.rotation) q /= std::sqrt(squares);
    return pose;
  }

  void vertex() {
    const std::uint32_t number = pose();
    if (graph_.given[number])
      reader_.fail("pose " + std::to_string(graph_.ids[number]) + " is given twice");
    graph_.poses[number] = transform();
    graph_.given[number] = true;
  }

  /// The numbers of one pose or several.
  void fix() {
    do graph_.fixed[pose()] = true;
    while (line_goes_on());
  }

  bool line_goes_on() const {
    const std::string_view rest = reader_.rest_of_line();
    const std::size_t first = rest.find_first_not_of(" \t\r");
    return first != std::string_view::npos && rest[first] != '#';
  }

  void edge() {
    const std::string_view rest = reader_.rest_of_line();
    PoseGraph::Edge edge;
    edge.line = reader_.line();
    edge.from = pose();
    edge.to = pose();
    if (edge.from == edge.to) reader_.fail("expected an edge between two poses, got one pose");
    edge.measured = transform();
    const std::size_t n = graph_.degrees();
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i; j < n; ++j) {
        edge.information[kInformationWidth * i + j] = edge.information[kInformationWidth * j + i] =
            reader_.number_of_line("a number of an information matrix");
      }
    }
    check_information(edge);
    end_line();
    graph_.edges.push_back(edge);
    const auto [first, fresh] = edge_lines_.emplace(rest, edge.line);
    if (fresh) return;
    if (options_.strict)
      reader_.fail("expected each edge once, got that of line " + std::to_string(first->second));
    duplicates_.push_back({edge.line, first->second, graph_.ids[edge.from], graph_.ids[edge.to]});
  }

  void check_information(const PoseGraph::Edge& edge) {
    const int n = static_cast<int>(graph_.degrees()), moved = graph_.dimension;
    if (!has_definite_block(edge, 0, moved) || !has_definite_block(edge, moved, n - moved))
      reader_.fail(
          "expected a positive definite information matrix, or one whose blocks of position and of "
          "rotation are");
    if (!has_definite_block(edge, 0, n)) indefinite_.push_back(edge.line);
  }

  void check_fixed() const {
    for (std::size_t k = 0; k < graph_.size(); ++k) {
      if (graph_.fixed[k] && !graph_.given[k]) {
        reader_.fail_at(first_lines_[k], "expected a vertex for pose " +
                                             std::to_string(graph_.ids[k]) +
                                             ", which is fixed, got none");
      }
    }
  }

  void check_pieces() const {
    const std::vector<std::uint32_t> pieces = graph_.pieces();
    const auto other = std::ranges::find_if(pieces, [](std::uint32_t k) { return k != 0; });
    if (other == pieces.end()) return;
    const auto k = static_cast<std::size_t>(other - pieces.begin());
    reader_.fail_at(first_lines_[k],
                    "expected a graph in one piece, got pose " + std::to_string(graph_.ids[k]) +
                        ", to which no edges lead from pose " + std::to_string(graph_.ids[0]));
  }

  void note_missing_vertices() {
    if (std::ranges::count(graph_.given, true) == 0) return;
    for (std::size_t k = 0; k < graph_.size(); ++k) {
      if (!graph_.given[k]) without_vertex_.push_back({first_lines_[k], graph_.ids[k]});
    }
    if (!options_.strict || without_vertex_.empty()) return;
    reader_.fail_at(without_vertex_[0].line, "expected a vertex for pose " +
                                                 std::to_string(without_vertex_[0].pose) +
                                                 ", as others have, got none");
  }

  void end_line() {
    const std::string_view more = reader_.word_of_line();
    if (!more.empty() && !more.starts_with('#'))
      reader_.fail("expected the end of the line, got \"" + std::string(more.substr(0, 40)) + "\"");
  }

  WordReader reader_;
  G2oOptions options_;
  PoseGraph graph_;
  std::optional<int> dimension_;
  std::unordered_map<std::int64_t, std::uint32_t> numbers_;
  std::vector<std::size_t> first_lines_;                          // by pose
  std::unordered_map<std::string_view, std::size_t> edge_lines_;  // by what is after the tag
  std::map<std::string, std::size_t> skipped_;
  std::vector<G2oNotes::Duplicate> duplicates_;
  std::vector<G2oNotes::WithoutVertex> without_vertex_;
  std::vector<std::size_t> indefinite_;  // lines
};

void append(std::string& text, double value) {
  text += ' ';
  append_number(text, value);
}

void append_pose(std::string& text, const Pose& pose, int dimension) {
  for (int d = 0; d < dimension; ++d) append(text, pose.position[static_cast<std::size_t>(d)]);
  if (dimension == 2) return append(text, pose.angle());
  for (const std::size_t k : {1, 2, 3, 0}) append(text, pose.rotation[k]);
}

}  // namespace

PoseGraph parse_g2o(const std::string& text, const std::string& name, const G2oOptions& options,
                    G2oNotes* notes) {
  G2oReader reader(text, name, options);
  PoseGraph graph = reader.read();
  if (notes != nullptr) *notes = reader.notes();
  return graph;
}

PoseGraph read_g2o(const std::string& path, const G2oOptions& options, G2oNotes* notes) {
  return parse_g2o(read_packed_text(path), path, options, notes);
}

std::string g2o_text(const PoseGraph& graph) {
  const bool plane = graph.dimension == 2;
  std::string text;
  for (std::size_t k = 0; k < graph.size(); ++k) {
    text += (plane ? "VERTEX_SE2 " : "VERTEX_SE3:QUAT ") + std::to_string(graph.ids[k]);
    append_pose(text, graph.poses[k], graph.dimension);
    text += '\n';
    if (graph.fixed[k]) text += "FIX " + std::to_string(graph.ids[k]) + '\n';
  }
  for (const PoseGraph::Edge& edge : graph.edges) {
    text += (plane ? "EDGE_SE2 " : "EDGE_SE3:QUAT ") + std::to_string(graph.ids[edge.from]) + ' ' +
            std::to_string(graph.ids[edge.to]);
    append_pose(text, edge.measured, graph.dimension);
    for (std::size_t i = 0; i < graph.degrees(); ++i)
      for (std::size_t j = i; j < graph.degrees(); ++j)
        append(text, edge.information[kInformationWidth * i + j]);
    text += '\n';
  }
  return text;
}

}  // namespace topograd
