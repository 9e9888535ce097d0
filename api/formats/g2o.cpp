// Pose graphs from g2o and TORO files, and to g2o files.
#include "g2o.hpp"

#include "packed_text.hpp"
#include "pose_graph_problem.hpp"
#include "pose_graph_weights.hpp"
#include "word_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace topograd {
namespace {

constexpr std::size_t kInformationWidth = 6;

enum class Record {
  pose,
  landmark,
  edge,
  sensor_edge,       ///< with a sensor of each pose
  calibration_edge,  ///< with a third pose, that of the sensor in both poses
  switchable_edge,   ///< with a switch
  switch_vertex,
  switch_prior,
  sighting,
  sensor_sighting,  ///< with a sensor
  bearing,
  pose_prior,
  sensor_prior,  ///< of the pose of a sensor
  position_prior,
  named_position_prior,  ///< with a sensor that it does not read
  point_prior,           ///< of a landmark, or of the position of a pose
  sensor,
  fix,
  nothing
};

struct Tag {
  std::string_view name;
  int dimension;  ///< 0: either
  Record record;
  bool toro = false;  ///< a rotation in space is roll, pitch and yaw; Ω has an order of its own
};
constexpr Tag kTags[] = {{"VERTEX_SE2", 2, Record::pose},
                         {"EDGE_SE2", 2, Record::edge},
                         {"VERTEX_SE3:QUAT", 3, Record::pose},
                         {"EDGE_SE3:QUAT", 3, Record::edge},
                         {"FIX", 0, Record::fix},
                         {"VERTEX_XY", 2, Record::landmark},
                         {"EDGE_SE2_XY", 2, Record::sighting},
                         {"EDGE_SE2_POINTXY_OFFSET", 2, Record::sensor_sighting},
                         {"EDGE_BEARING_SE2_XY", 2, Record::bearing},
                         {"VERTEX_TRACKXYZ", 3, Record::landmark},
                         {"VERTEX_POINT_XYZ", 3, Record::landmark},
                         {"EDGE_SE3_TRACKXYZ", 3, Record::sensor_sighting},
                         {"EDGE_PRIOR_SE2", 2, Record::pose_prior},
                         {"EDGE_PRIOR_SE2_XY", 2, Record::position_prior},
                         {"EDGE_SE2_PRIOR_XY", 2, Record::position_prior},
                         {"EDGE_PRIOR_XY", 2, Record::point_prior},
                         {"EDGE_SE3_PRIOR", 3, Record::sensor_prior},
                         {"EDGE_SE3_XYZ_PRIOR", 3, Record::named_position_prior},
                         {"EDGE_POINTXYZ_PRIOR", 3, Record::point_prior},
                         {"PARAMS_SE2OFFSET", 2, Record::sensor},
                         {"PARAMS_SE3OFFSET", 3, Record::sensor},
                         {"EDGE_SE2_OFFSET", 2, Record::sensor_edge},
                         {"EDGE_SE3_OFFSET", 3, Record::sensor_edge},
                         {"EDGE_SE2_CALIB", 2, Record::calibration_edge},
                         {"EDGE_SE3_CALIB", 3, Record::calibration_edge},
                         {"EDGE_SE2_SWITCHABLE", 2, Record::switchable_edge},
                         {"EDGE_SE3_SWITCHABLE", 3, Record::switchable_edge},
                         {"VERTEX_SWITCH", 0, Record::switch_vertex},
                         {"EDGE_SWITCH_PRIOR", 0, Record::switch_prior},
                         {"VERTEX2", 2, Record::pose, true},
                         {"EDGE2", 2, Record::edge, true},
                         {"VERTEX3", 3, Record::pose, true},
                         {"EDGE3", 3, Record::edge, true},
                         {"EQUIV", 0, Record::nothing, true}};

const Tag* find_tag(std::string_view name) {
  for (const Tag& tag : kTags)
    if (tag.name == name) return &tag;
  return nullptr;
}

/// Poses of sensors and of cameras.
constexpr std::string_view kParameters = "PARAMS_";

/// Rows and columns of the six numbers of a symmetric 3 × 3 matrix.
using Order = std::array<std::array<std::size_t, 2>, 6>;
constexpr Order kToroOrder = {{{0, 0}, {0, 1}, {1, 1}, {2, 2}, {0, 2}, {1, 2}}};
constexpr Order kG2oOrder = {{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}}};

void set_information(PoseGraph::Edge& edge, const std::array<double, 6>& numbers,
                     const Order& order) {
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    const auto& [i, j] = order[k];
    edge.information[kInformationWidth * i + j] = edge.information[kInformationWidth * j + i] =
        numbers[k];
  }
}

/// The rotation by roll around x, then pitch around y, then yaw around z.
std::array<double, 4> rotation_of(double roll, double pitch, double yaw) {
  const auto turn = [](double angle, std::size_t axis) {
    Pose out;
    out.rotation = {std::cos(angle / 2), 0, 0, 0};
    out.rotation[axis] = std::sin(angle / 2);
    return out;
  };
  return (turn(yaw, 3) * turn(pitch, 2) * turn(roll, 1)).rotation;
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
    const bool nothing = graph_.size() + graph_.landmarks.size() == 0;
    if (nothing || graph_.measurements() == 0)
      reader_.fail("expected edges, got none" + skipped_text());
    settle_order();
    settle_sensors();
    settle_fixed();
    if (options_.strict) check_pieces();
    note_missing_vertices();
    graph_.file = reader_.name();
    return std::move(graph_);
  }

  G2oNotes notes() const {
    G2oNotes notes;
    for (const auto& [tag, lines] : skipped_) {
      const bool known = find_tag(tag) != nullptr || tag.starts_with(kParameters);
      notes.skipped.push_back({tag, lines, known});
    }
    notes.duplicates = duplicates_;
    notes.without_vertex = without_vertex_;
    notes.indefinite = indefinite_;
    notes.information_order = information_order_;
    return notes;
  }

 private:
  void record(std::string_view word) {
    const Tag* tag = find_tag(word);
    if (tag == nullptr) return skip(word);
    if (tag->record == Record::nothing) {
      ++skipped_[std::string(word)];
      return;
    }
    if (tag->record == Record::sensor) return sensor(*tag);
    if (tag->dimension != 0) set_dimension(*tag);
    const std::string_view rest = reader_.rest_of_line();
    switch (tag->record) {
      case Record::pose: vertex(*tag); break;
      case Record::landmark: landmark_vertex(); break;
      case Record::edge:
      case Record::sensor_edge:
      case Record::calibration_edge:
      case Record::switchable_edge: edge(*tag, rest); break;
      case Record::switch_vertex: switch_vertex(); break;
      case Record::switch_prior: switch_prior(*tag, rest); break;
      case Record::sighting:
      case Record::sensor_sighting:
      case Record::bearing: sighting(*tag, rest); break;
      case Record::fix: fix(); break;
      default: prior(*tag, rest); break;
    }
    end_line();
  }

  void skip(std::string_view word) {
    const std::string tag(word.substr(0, 40));
    if (!options_.skip_unknown && !word.starts_with(kParameters)) {
      reader_.fail("expected a known tag, such as VERTEX_SE2 or EDGE_SE3:QUAT, got \"" + tag +
                   "\", which skip_unknown would pass over");
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

  /// Negative ones, too: RTAB-Map gives them to landmarks.
  std::int64_t name(std::string_view what) {
    const std::string_view word = reader_.word_of_line();
    const std::string_view digits = word.substr(word.starts_with('+') ? 1 : 0);
    std::int64_t value = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (status != std::errc() || end != digits.data() + digits.size() ||
        value == std::numeric_limits<std::int64_t>::max())  // there is one more
      reader_.fail_expected(std::string(what) + " as a whole number", word);
    return value;
  }

  enum class Kind : std::uint8_t { pose, landmark, switched };
  /// A pose, a landmark or a switch of a name.
  struct Vertex {
    std::uint32_t number = 0;
    Kind kind = Kind::pose;
  };

  std::size_t count(Kind kind) const {
    switch (kind) {
      case Kind::landmark: return graph_.landmarks.size();
      case Kind::switched: return graph_.switches.size();
      case Kind::pose: break;
    }
    return graph_.size();
  }

  /// Throws if the name is that of another kind.
  std::uint32_t vertex_number(std::int64_t id, Kind kind) {
    const auto next = static_cast<std::uint32_t>(count(kind));
    const auto [found, fresh] = vertices_.emplace(id, Vertex{next, kind});
    if (!fresh && found->second.kind != kind) {
      constexpr std::array kNames = {"a pose", "a landmark", "a switch"};
      reader_.fail("expected " + std::string(kNames[static_cast<std::size_t>(kind)]) +
                   " of number " + std::to_string(id) + ", got " +
                   kNames[static_cast<std::size_t>(found->second.kind)]);
    }
    if (!fresh) return found->second.number;
    switch (kind) {
      case Kind::landmark:
        graph_.landmarks.push_back({.id = id});
        landmark_lines_.push_back(reader_.line());
        return next;
      case Kind::switched:
        graph_.switches.push_back({.id = id});
        switch_lines_.push_back(reader_.line());
        return next;
      case Kind::pose: break;
    }
    graph_.ids.push_back(id);
    first_lines_.push_back(reader_.line());
    graph_.poses.emplace_back();
    graph_.given.push_back(false);
    graph_.fixed.push_back(false);
    return next;
  }

  std::uint32_t pose() { return vertex_number(name("the number of a pose"), Kind::pose); }
  std::uint32_t landmark() {
    return vertex_number(name("the number of a landmark"), Kind::landmark);
  }
  std::uint32_t switch_number() {
    return vertex_number(name("the number of a switch"), Kind::switched);
  }

  Pose transform(int dimension, bool angles = false) {
    const auto next = [&](const char* what) { return reader_.number_of_line(what); };
    if (dimension == 2) {
      const double x = next("x"), y = next("y");
      return Pose::planar(x, y, next("an angle"));
    }
    Pose pose;
    for (double& x : pose.position) x = next("a coordinate");
    if (angles) {
      const double roll = next("an angle"), pitch = next("an angle");
      pose.rotation = rotation_of(roll, pitch, next("an angle"));
      return pose;
    }
    for (const std::size_t k : {1, 2, 3, 0}) pose.rotation[k] = next("a number of a quaternion");
    double squares = 0;
    for (const double q : pose.rotation) squares += q * q;
    if (!(squares > 0 && std::isfinite(squares)))
      reader_.fail("expected a quaternion of a length > 0");
    for (double& q : pose.rotation) q /= std::sqrt(squares);
    return pose;
  }

  std::array<double, 3> point() {
    std::array<double, 3> out = {};
    for (int d = 0; d < graph_.dimension; ++d)
      out[static_cast<std::size_t>(d)] = reader_.number_of_line("a coordinate");
    return out;
  }

  void vertex(const Tag& tag) {
    const std::uint32_t number = pose();
    if (graph_.given[number])
      reader_.fail("pose " + std::to_string(graph_.ids[number]) + " is given twice");
    graph_.poses[number] = transform(graph_.dimension, tag.toro);
    graph_.given[number] = true;
  }

  void landmark_vertex() {
    PoseGraph::Landmark& vertex = graph_.landmarks[landmark()];
    if (vertex.given) reader_.fail("landmark " + std::to_string(vertex.id) + " is given twice");
    vertex.position = point();
    vertex.given = true;
  }

  double switch_value() {
    const double value = reader_.number_of_line("the value of a switch");
    if (!(value >= 0 && value <= 1))
      reader_.fail("expected the value of a switch in 0 .. 1, got " + std::to_string(value));
    return value;
  }

  void switch_vertex() {
    PoseGraph::Switch& vertex = graph_.switches[switch_number()];
    if (vertex.given) reader_.fail("switch " + std::to_string(vertex.id) + " is given twice");
    vertex.value = switch_value();
    vertex.given = true;
  }

  /// "EDGE_SWITCH_PRIOR switch value information".
  void switch_prior(const Tag& tag, std::string_view rest) {
    PoseGraph::Prior prior{.of = PoseGraph::Prior::Of::switched, .edge = new_edge()};
    prior.edge.to = switch_number();
    prior.edge.measured.position[0] = switch_value();
    information(prior.edge, 1);
    require_semidefinite(prior.edge, 0, 1);
    const std::int64_t id = graph_.switches[prior.edge.to].id;
    graph_.priors.push_back(prior);
    note_repeated(tag, rest, id, id);
  }

  /// Sensors of the other dimension lie in files too, where no edge names them.
  void sensor(const Tag& tag) {
    const std::int64_t id = name("the number of a sensor");
    const auto [found, fresh] = sensors_[tag.dimension == 3].emplace(id, SensorLine{});
    if (!fresh) reader_.fail("sensor " + std::to_string(id) + " is given twice");
    found->second = {tag.name, transform(tag.dimension)};
    end_line();
  }

  /// The numbers of one vertex or several.
  void fix() {
    do fixed_.emplace_back(name("the number of a pose"), reader_.line());
    while (line_goes_on());
  }

  bool line_goes_on() const {
    const std::string_view rest = reader_.rest_of_line();
    const std::size_t first = rest.find_first_not_of(WordReader::kBlanks);
    return first != std::string_view::npos && rest[first] != '#';
  }

  PoseGraph::Edge new_edge() {
    PoseGraph::Edge edge;
    edge.line = reader_.line();
    return edge;
  }

  /// The upper triangle of the first rows of Ω.
  void information(PoseGraph::Edge& edge, std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = i; j < rows; ++j) {
        edge.information[kInformationWidth * i + j] = edge.information[kInformationWidth * j + i] =
            reader_.number_of_line("a number of an information matrix");
      }
    }
  }

  void edge(const Tag& tag, std::string_view rest) {
    PoseGraph::Edge edge = new_edge();
    edge.from = pose();
    edge.to = pose();
    if (edge.from == edge.to) reader_.fail("expected an edge between two poses, got one pose");
    join(tag, edge);
    edge.measured = transform(graph_.dimension, tag.toro);
    if (tag.toro && tag.dimension == 2) {
      std::array<double, 6>& numbers = toro_numbers_.emplace_back();
      for (double& x : numbers) x = reader_.number_of_line("a number of an information matrix");
      toro_edges_.push_back(graph_.edges.size());
    } else {
      information(edge, graph_.degrees());
      check_information(edge);
    }
    graph_.edges.push_back(edge);
    note_repeated(tag, rest, graph_.ids[edge.from], graph_.ids[edge.to]);
  }

  /// Reads what an edge names between its poses and its numbers.
  void join(const Tag& tag, PoseGraph::Edge& edge) {
    switch (tag.record) {
      case Record::sensor_edge:
        edge.from_sensor = sensor_name();
        edge.to_sensor = sensor_name();
        break;
      case Record::calibration_edge:
        edge.calibration = pose();
        if (edge.calibration == edge.from || edge.calibration == edge.to)
          reader_.fail("expected a third pose, that of the sensor, got pose " +
                       std::to_string(graph_.ids[edge.calibration]) + " again");
        break;
      case Record::switchable_edge: edge.switched_by = switch_number(); break;
      default: break;
    }
  }

  void note_repeated(const Tag& tag, std::string_view rest, std::int64_t from, std::int64_t to) {
    const auto [first, fresh] = edge_lines_[tag.name].emplace(rest, reader_.line());
    if (fresh) return;
    if (options_.strict)
      reader_.fail("expected each edge once, got that of line " + std::to_string(first->second));
    duplicates_.push_back({reader_.line(), first->second, from, to});
  }

  /// "EDGE_... pose landmark [sensor] measured information".
  void sighting(const Tag& tag, std::string_view rest) {
    PoseGraph::Sighting seen;
    PoseGraph::Edge& edge = seen.edge = new_edge();
    edge.from = pose();
    edge.to = landmark();
    seen.bearing = tag.record == Record::bearing;
    if (tag.record == Record::sensor_sighting) seen.sensor = sensor_name();
    if (seen.bearing) {
      edge.measured = Pose::planar(0, 0, reader_.number_of_line("an angle"));
    } else {
      edge.measured.position = point();
    }
    const int size = seen.bearing ? 1 : graph_.dimension;
    information(edge, static_cast<std::size_t>(size));
    require_semidefinite(edge, 0, size);
    graph_.sightings.push_back(seen);
    note_repeated(tag, rest, graph_.ids[edge.from], graph_.landmarks[edge.to].id);
  }

  void prior(const Tag& tag, std::string_view rest) {
    using Of = PoseGraph::Prior::Of;
    PoseGraph::Prior prior;
    PoseGraph::Edge& edge = prior.edge = new_edge();
    const std::int64_t id = name("the number of a pose");
    const bool of_pose = tag.record == Record::pose_prior || tag.record == Record::sensor_prior;
    const auto found = vertices_.find(id);
    const bool of_landmark = tag.record == Record::point_prior && found != vertices_.end() &&
                             found->second.kind == Kind::landmark;
    prior.of = of_pose ? Of::pose : (of_landmark ? Of::landmark : Of::position);
    edge.to = vertex_number(id, of_landmark ? Kind::landmark : Kind::pose);
    if (tag.record == Record::sensor_prior && !is_without_sensor(rest))
      prior.sensor = sensor_name();
    if (tag.record == Record::named_position_prior) (void)name("the number of a sensor");
    if (of_pose) {
      edge.measured = transform(graph_.dimension);
      information(edge, graph_.degrees());
      check_information(edge);
    } else {
      edge.measured.position = point();
      information(edge, static_cast<std::size_t>(graph_.dimension));
      require_semidefinite(edge, 0, graph_.dimension);
    }
    graph_.priors.push_back(prior);
    note_repeated(tag, rest, id, id);
  }

  /// Some programs write EDGE_SE3_PRIOR without a sensor: the name, 7 and 21 numbers.
  static bool is_without_sensor(std::string_view rest) {
    rest = rest.substr(0, rest.find('#'));
    std::size_t words = 0;
    constexpr std::string_view kBlanks = WordReader::kBlanks;
    for (std::size_t at = rest.find_first_not_of(kBlanks); at != std::string_view::npos; ++words) {
      at = rest.find_first_of(kBlanks, at);
      if (at != std::string_view::npos) at = rest.find_first_not_of(kBlanks, at);
    }
    return words == 29;
  }

  /// The index of a sensor's name among those that edges name; settle_sensors() looks them up.
  std::uint32_t sensor_name() {
    const std::int64_t id = name("the number of a sensor");
    const auto next = static_cast<std::uint32_t>(graph_.sensors.size());
    const auto [found, fresh] = named_sensors_.emplace(id, next);
    if (fresh) {
      graph_.sensors.push_back({.id = id, .offset = {}});
      sensor_lines_.push_back(reader_.line());
    }
    return found->second;
  }

  void settle_sensors() {
    auto& known = sensors_[graph_.dimension == 3];
    for (std::size_t k = 0; k < graph_.sensors.size(); ++k) {
      PoseGraph::Sensor& sensor = graph_.sensors[k];
      const auto found = known.find(sensor.id);
      if (found == known.end()) {
        reader_.fail_at(
            sensor_lines_[k],
            "expected " +
                std::string(graph_.dimension == 3 ? "PARAMS_SE3OFFSET " : "PARAMS_SE2OFFSET ") +
                std::to_string(sensor.id) + ", which this edge names, got none");
      }
      sensor.offset = found->second.offset;
      known.erase(found);
    }
    for (const auto& lines : sensors_)
      for (const auto& [id, line] : lines) ++skipped_[std::string(line.tag)];
  }

  /// TORO's order, unless the matrices of all edges are semidefinite in g2o's order alone.
  void settle_order() {
    if (toro_edges_.empty()) return;
    const auto bad_edge = [&](const Order& order) {
      for (std::size_t k = 0; k < toro_edges_.size(); ++k) {
        PoseGraph::Edge& edge = graph_.edges[toro_edges_[k]];
        set_information(edge, toro_numbers_[k], order);
        if (!has_semidefinite_block(edge, 0, 3)) return k;
      }
      return toro_edges_.size();
    };
    const Order* order = &kToroOrder;
    const std::size_t bad = bad_edge(kToroOrder);
    if (bad < toro_edges_.size()) {
      order = &kG2oOrder;
      if (bad_edge(kG2oOrder) < toro_edges_.size()) {
        PoseGraph::Edge& edge = graph_.edges[toro_edges_[bad]];
        set_information(edge, toro_numbers_[bad], kToroOrder);
        reader_.fail_at(edge.line,
                        "expected positive semidefinite information matrices, in TORO's order or "
                        "in g2o's, got one with the eigenvalue " +
                            least_eigenvalue(edge, 0, 3));
      }
    }
    for (std::size_t k = 0; k < toro_edges_.size(); ++k)
      set_information(graph_.edges[toro_edges_[k]], toro_numbers_[k], *order);
    information_order_ =
        order == &kToroOrder ? "I11 I12 I22 I33 I13 I23" : "I11 I12 I13 I22 I23 I33";
  }

  void require_semidefinite(const PoseGraph::Edge& edge, int first, int size) const {
    if (has_semidefinite_block(edge, first, size)) return;
    reader_.fail(
        "expected a positive semidefinite information matrix, or one whose blocks of position and "
        "of rotation are, got one with the eigenvalue " +
        least_eigenvalue(edge, first, size));
  }

  void check_information(const PoseGraph::Edge& edge) {
    const int n = static_cast<int>(graph_.degrees()), moved = graph_.dimension;
    require_semidefinite(edge, 0, moved);
    require_semidefinite(edge, moved, n - moved);
    if (!has_semidefinite_block(edge, 0, n)) indefinite_.push_back(edge.line);
  }

  /// Says whether the file gives a vertex, and in which line it first names it.
  struct Known {
    bool given = false;
    std::size_t line = 0;
  };
  Known known(const Vertex& at) const {
    switch (at.kind) {
      case Kind::landmark: return {graph_.landmarks[at.number].given, landmark_lines_[at.number]};
      case Kind::switched: return {graph_.switches[at.number].given, switch_lines_[at.number]};
      case Kind::pose: break;
    }
    return {graph_.given[at.number], first_lines_[at.number]};
  }

  void fix_vertex(const Vertex& at) {
    switch (at.kind) {
      case Kind::landmark: graph_.landmarks[at.number].fixed = true; return;
      case Kind::switched: graph_.switches[at.number].fixed = true; return;
      case Kind::pose: graph_.fixed[at.number] = true; return;
    }
  }

  void settle_fixed() {
    for (const auto& [id, line] : fixed_) {
      const auto found = vertices_.find(id);
      const Known vertex = found == vertices_.end() ? Known{false, line} : known(found->second);
      if (!vertex.given) {
        reader_.fail_at(vertex.line, "expected a vertex for pose " + std::to_string(id) +
                                         ", which is fixed, got none");
      }
      fix_vertex(found->second);
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
    if (std::ranges::count(graph_.given, true) != 0) {
      for (std::size_t k = 0; k < graph_.size(); ++k)
        if (!graph_.given[k]) without_vertex_.push_back({first_lines_[k], graph_.ids[k]});
    }
    const auto is_given = [](const PoseGraph::Landmark& landmark) { return landmark.given; };
    if (std::ranges::any_of(graph_.landmarks, is_given)) {
      for (std::size_t k = 0; k < graph_.landmarks.size(); ++k)
        if (!graph_.landmarks[k].given)
          without_vertex_.push_back({landmark_lines_[k], graph_.landmarks[k].id});
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
  std::unordered_map<std::int64_t, Vertex> vertices_;
  std::vector<std::size_t> first_lines_, landmark_lines_, switch_lines_;  // by number
  /// By tag and what is after it.
  std::map<std::string_view, std::unordered_map<std::string_view, std::size_t>> edge_lines_;
  struct SensorLine {
    std::string_view tag;
    Pose offset;
  };
  std::map<std::int64_t, SensorLine> sensors_[2];  // in the plane, in space
  std::map<std::int64_t, std::uint32_t> named_sensors_;
  std::vector<std::size_t> sensor_lines_;                    // by sensor: the first that names it
  std::vector<std::pair<std::int64_t, std::size_t>> fixed_;  // name and line
  std::vector<std::array<double, 6>> toro_numbers_;
  std::vector<std::size_t> toro_edges_;
  std::string information_order_;
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

namespace {

void append_information(std::string& text, const PoseGraph::Edge& edge, std::size_t rows) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = i; j < rows; ++j)
      append(text, edge.information[kInformationWidth * i + j]);
  text += '\n';
}

void append_point(std::string& text, const std::array<double, 3>& point, int dimension) {
  for (int d = 0; d < dimension; ++d) append(text, point[static_cast<std::size_t>(d)]);
}

std::string spaced(std::int64_t id) { return ' ' + std::to_string(id); }

/// The name of the sensor at the pose itself, which tags of space need.
std::int64_t unused_sensor(const PoseGraph& graph) {
  std::int64_t id = 0;
  for (const PoseGraph::Sensor& sensor : graph.sensors) id = std::max(id, sensor.id + 1);
  return id;
}

/// True for an edge of which one pose alone has a sensor.
bool has_one_sensor(const PoseGraph::Edge& edge) {
  return (edge.from_sensor == PoseGraph::kNone) != (edge.to_sensor == PoseGraph::kNone);
}

bool needs_unused_sensor(const PoseGraph& graph) {
  const auto without_sensor = [](const PoseGraph::Sighting& seen) {
    return seen.sensor == PoseGraph::kNoSensor;
  };
  return (graph.dimension == 3 && std::ranges::any_of(graph.sightings, without_sensor)) ||
         std::ranges::any_of(graph.edges, has_one_sensor);
}

void append_edge(std::string& text, const PoseGraph& graph, const PoseGraph::Edge& edge) {
  const bool plane = graph.dimension == 2;
  const std::string tag = plane ? "EDGE_SE2" : "EDGE_SE3";
  const std::string poses = spaced(graph.ids[edge.from]) + spaced(graph.ids[edge.to]);
  const auto sensor = [&](std::uint32_t number) {
    return spaced(number == PoseGraph::kNone ? unused_sensor(graph) : graph.sensors[number].id);
  };
  if (edge.switched_by != PoseGraph::kNone) {
    text += tag + "_SWITCHABLE" + poses + spaced(graph.switches[edge.switched_by].id);
  } else if (edge.calibration != PoseGraph::kNone) {
    text += tag + "_CALIB" + poses + spaced(graph.ids[edge.calibration]);
  } else if (edge.from_sensor != PoseGraph::kNone || edge.to_sensor != PoseGraph::kNone) {
    text += tag + "_OFFSET" + poses + sensor(edge.from_sensor) + sensor(edge.to_sensor);
  } else {
    text += tag + (plane ? "" : ":QUAT") + poses;
  }
  append_pose(text, edge.measured, graph.dimension);
  append_information(text, edge, graph.degrees());
}

void append_sighting(std::string& text, const PoseGraph& graph, const PoseGraph::Sighting& seen) {
  const PoseGraph::Edge& edge = seen.edge;
  const bool plane = graph.dimension == 2, offset = seen.sensor != PoseGraph::kNoSensor;
  const char* planar = offset ? "EDGE_SE2_POINTXY_OFFSET" : "EDGE_SE2_XY";
  if (seen.bearing) planar = "EDGE_BEARING_SE2_XY";
  text += plane ? planar : "EDGE_SE3_TRACKXYZ";
  text += spaced(graph.ids[edge.from]) + spaced(graph.landmarks[edge.to].id);
  if (offset) text += spaced(graph.sensors[seen.sensor].id);
  if (!plane && !offset) text += spaced(unused_sensor(graph));
  if (seen.bearing) {
    append(text, edge.measured.angle());
  } else {
    append_point(text, edge.measured.position, graph.dimension);
  }
  append_information(text, edge, seen.bearing ? 1 : static_cast<std::size_t>(graph.dimension));
}

void append_prior(std::string& text, const PoseGraph& graph, const PoseGraph::Prior& prior) {
  using Of = PoseGraph::Prior::Of;
  const PoseGraph::Edge& edge = prior.edge;
  const bool plane = graph.dimension == 2;
  if (prior.of == Of::pose) {
    text += plane ? "EDGE_PRIOR_SE2" : "EDGE_SE3_PRIOR";
    text += spaced(graph.ids[edge.to]);
    if (prior.sensor != PoseGraph::kNoSensor) text += spaced(graph.sensors[prior.sensor].id);
    append_pose(text, edge.measured, graph.dimension);
    return append_information(text, edge, graph.degrees());
  }
  if (prior.of == Of::switched) {
    text += "EDGE_SWITCH_PRIOR" + spaced(graph.switches[edge.to].id);
    append(text, edge.measured.position[0]);
    return append_information(text, edge, 1);
  }
  const char* position = plane ? "EDGE_PRIOR_SE2_XY" : "EDGE_POINTXYZ_PRIOR";
  const char* landmark = plane ? "EDGE_PRIOR_XY" : "EDGE_POINTXYZ_PRIOR";
  text += prior.of == Of::landmark ? landmark : position;
  text += spaced(prior.of == Of::landmark ? graph.landmarks[edge.to].id : graph.ids[edge.to]);
  append_point(text, edge.measured.position, graph.dimension);
  append_information(text, edge, static_cast<std::size_t>(graph.dimension));
}

}  // namespace

std::string g2o_text(const PoseGraph& graph) {
  const bool plane = graph.dimension == 2;
  std::string text;
  for (const PoseGraph::Sensor& sensor : graph.sensors) {
    text += (plane ? "PARAMS_SE2OFFSET" : "PARAMS_SE3OFFSET") + spaced(sensor.id);
    append_pose(text, sensor.offset, graph.dimension);
    text += '\n';
  }
  if (needs_unused_sensor(graph))
    text += (plane ? "PARAMS_SE2OFFSET" : "PARAMS_SE3OFFSET") + spaced(unused_sensor(graph)) +
            (plane ? " 0 0 0\n" : " 0 0 0 0 0 0 1\n");
  for (std::size_t k = 0; k < graph.size(); ++k) {
    text += (plane ? "VERTEX_SE2" : "VERTEX_SE3:QUAT") + spaced(graph.ids[k]);
    append_pose(text, graph.poses[k], graph.dimension);
    text += '\n';
    if (graph.fixed[k]) text += "FIX" + spaced(graph.ids[k]) + '\n';
  }
  for (const PoseGraph::Landmark& landmark : graph.landmarks) {
    text += (plane ? "VERTEX_XY" : "VERTEX_TRACKXYZ") + spaced(landmark.id);
    append_point(text, landmark.position, graph.dimension);
    text += '\n';
    if (landmark.fixed) text += "FIX" + spaced(landmark.id) + '\n';
  }
  for (const PoseGraph::Switch& one : graph.switches) {
    text += "VERTEX_SWITCH" + spaced(one.id);
    append(text, one.value);
    text += '\n';
    if (one.fixed) text += "FIX" + spaced(one.id) + '\n';
  }
  for (const PoseGraph::Edge& edge : graph.edges) append_edge(text, graph, edge);
  for (const PoseGraph::Sighting& seen : graph.sightings) append_sighting(text, graph, seen);
  for (const PoseGraph::Prior& prior : graph.priors) append_prior(text, graph, prior);
  return text;
}

}  // namespace topograd
