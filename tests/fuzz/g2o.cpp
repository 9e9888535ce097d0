// g2o files: what is read can be evaluated and reads back to the same graph.
#include "target.hpp"

#include "../../api/formats/g2o.hpp"
#include "../../api/formats/pose_graph_problem.hpp"

#include <string>

namespace topograd::fuzz {

namespace {

bool is_below(std::uint32_t number, std::size_t size) {
  return number == PoseGraph::kNone || number < size;
}

std::size_t size_of(const PoseGraph& graph, PoseGraph::Prior::Of of) {
  if (of == PoseGraph::Prior::Of::landmark) return graph.landmarks.size();
  return of == PoseGraph::Prior::Of::switched ? graph.switches.size() : graph.size();
}

}  // namespace

void g2o(std::string_view text) {
  PoseGraph graph;
  if (!reads([&] { graph = parse_g2o(std::string(text), "graph.g2o", {.skip_unknown = true}); },
             {ErrorCode::Parse}))
    return;
  require(graph.measurements() != 0, "a graph without edges");
  for (const PoseGraph::Edge& edge : graph.edges)
    require(edge.from < graph.size() && edge.to < graph.size() && edge.from != edge.to &&
                is_below(edge.calibration, graph.size()) &&
                is_below(edge.from_sensor, graph.sensors.size()) &&
                is_below(edge.to_sensor, graph.sensors.size()) &&
                is_below(edge.switched_by, graph.switches.size()),
            "an edge between what is not there");
  for (const PoseGraph::Sighting& seen : graph.sightings)
    require(seen.edge.from < graph.size() && seen.edge.to < graph.landmarks.size(),
            "a sighting of what is not there");
  for (const PoseGraph::Prior& prior : graph.priors)
    require(prior.edge.to < size_of(graph, prior.of), "a prior of what is not there");
  (void)graph.anchors();
  for (const PoseObjective objective : {PoseObjective::chordal, PoseObjective::g2o})
    (void)reads([&] { (void)pose_graph_errors(graph, objective); }, {ErrorCode::InvalidArgument});
  const PoseGraph again = parse_g2o(g2o_text(graph), "again.g2o");
  require(again.ids.size() == graph.ids.size() && again.measurements() == graph.measurements() &&
              again.landmarks.size() == graph.landmarks.size() &&
              again.switches.size() == graph.switches.size(),
          "a graph that does not read back");
  for (std::size_t k = 0; k < graph.edges.size(); ++k)
    require(again.edges[k].information == graph.edges[k].information &&
                again.edges[k].measured.position == graph.edges[k].measured.position,
            "an edge that does not read back");
}

}  // namespace topograd::fuzz
