// Pose graphs from g2o and TORO files, and to g2o files.
#pragma once

#include "pose_graph.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace topograd {

struct G2oOptions {
  bool skip_unknown = false;  ///< pass over lines with unknown tags
  /// Refuse edges that are there twice, graphs in several pieces, and vertices for some poses
  /// alone.
  bool strict = false;
};

/// Findings of read_g2o() besides the graph.
struct G2oNotes {
  struct Skipped {
    std::string tag;
    std::size_t lines = 0;
    bool known = false;  ///< PARAMS_... and EQUIV, which are passed over without the option
  };
  struct Duplicate {
    std::size_t line = 0, first_line = 0;
    std::int64_t from = 0, to = 0;  ///< names of the poses
  };
  struct WithoutVertex {
    std::size_t line = 0;  ///< the first that names it
    std::int64_t pose = 0;
  };
  std::vector<Skipped> skipped;       ///< by tag
  std::vector<Duplicate> duplicates;  ///< edges whose numbers are written in the same way as before
  std::vector<WithoutVertex> without_vertex;  ///< poses, in a file where others have a vertex
  /// Lines of edges whose information matrix is not positive semidefinite, though its diagonal
  /// blocks are: PoseObjective::chordal reads these alone.
  std::vector<std::size_t> indefinite;
  /// How the file has the numbers of an information matrix, in a file with EDGE2 alone:
  /// "I11 I12 I22 I33 I13 I23", TORO's order, or "I11 I12 I13 I22 I23 I33", g2o's.
  std::string information_order;
};

/// Reads a g2o file, plain or packed by gzip or bzip2, with FIX of one vertex or several:
///
///   in the plane  VERTEX_SE2, VERTEX_XY; EDGE_SE2, EDGE_SE2_OFFSET, EDGE_SE2_CALIB, EDGE_SE2_XY,
///   EDGE_SE2_POINTXY_OFFSET,
///                 EDGE_BEARING_SE2_XY; EDGE_PRIOR_SE2, EDGE_PRIOR_SE2_XY or EDGE_SE2_PRIOR_XY,
///                 EDGE_PRIOR_XY; PARAMS_SE2OFFSET
///   in space      VERTEX_SE3:QUAT, VERTEX_TRACKXYZ or VERTEX_POINT_XYZ; EDGE_SE3:QUAT,
///                 EDGE_SE3_OFFSET, EDGE_SE3_CALIB, EDGE_SE3_TRACKXYZ; EDGE_SE3_PRIOR,
///                 EDGE_SE3_XYZ_PRIOR, EDGE_POINTXYZ_PRIOR; PARAMS_SE3OFFSET
///   switches      VERTEX_SWITCH, EDGE_SWITCH_PRIOR; EDGE_SE2_SWITCHABLE, EDGE_SE3_SWITCHABLE
///   TORO          VERTEX2, EDGE2, VERTEX3, EDGE3; EQUIV is passed over. The information of EDGE2
///                 has TORO's order, or g2o's if the matrices are positive semidefinite in that
///                 order alone.
///
/// PARAMS_... that no edge names are passed over: the notes have them among the skipped lines.
/// Poses and landmarks that edges name and no vertex does are there without a position. Sources:
/// Kümmerle et al., g2o: A General Framework for Graph Optimization, ICRA 2011; Sünderhauf and
/// Protzel, Switchable Constraints for Robust Pose Graph SLAM, IROS 2012; Grisetti et al.,
/// TORO, IROS 2007.
///
/// Throws Error{File} if the file cannot be read, Error{Parse} ("file:line: expected ..., got ...")
/// for a tag that is not known, both dimensions in one file, a vertex that is given twice, a fixed
/// vertex that is not given, a pose where a landmark or a switch is expected or the other way
/// round, a switch outside 0 .. 1, an edge from a pose to itself, PARAMS_... that an edge names and
/// the file does not have, a quaternion of length 0, an information matrix whose blocks of position
/// and of rotation are not positive semidefinite, numbers that are missing or not finite, a file
/// without edges, and what `strict` refuses. Cost: linear in the file.
PoseGraph read_g2o(const std::string& path, const G2oOptions& options = {},
                   G2oNotes* notes = nullptr);
PoseGraph parse_g2o(const std::string& text, const std::string& name,
                    const G2oOptions& options = {}, G2oNotes* notes = nullptr);
/// The graph as a g2o file; numbers read back to the same bits, but for rounding of quaternions to
/// length 1, and of angles.
std::string g2o_text(const PoseGraph& graph);

}  // namespace topograd
