// Pose graphs from and to g2o files.
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
  /// Lines of edges whose information matrix is not positive definite, though its diagonal blocks
  /// are: PoseObjective::chordal reads these alone.
  std::vector<std::size_t> indefinite;
};

/// Reads a g2o file, plain or packed by gzip or bzip2: VERTEX_SE2, EDGE_SE2, VERTEX_SE3:QUAT,
/// EDGE_SE3:QUAT, FIX with one pose or several, and PARAMS_..., which these edges do not read: the
/// notes have them among the skipped lines. Poses that edges name and no vertex does are there
/// without a position. Source: Kümmerle et al., g2o: A General Framework for Graph Optimization,
/// ICRA 2011.
///
/// Throws Error{File} if the file cannot be read, Error{Parse} ("file:line: expected ..., got ...")
/// for a tag that is not known, both dimensions in one file, a pose that is given twice, a fixed
/// pose that is not given, an edge from a pose to itself, a quaternion of length 0, an information
/// matrix whose blocks of position and of rotation are not positive definite, numbers that are
/// missing or not finite, a file without edges, and what `strict` refuses. Cost: linear in the
/// file.
PoseGraph read_g2o(const std::string& path, const G2oOptions& options = {},
                   G2oNotes* notes = nullptr);
PoseGraph parse_g2o(const std::string& text, const std::string& name,
                    const G2oOptions& options = {}, G2oNotes* notes = nullptr);
/// The graph as a g2o file; numbers read back to the same bits, but for rounding of quaternions to
/// length 1, and of angles.
std::string g2o_text(const PoseGraph& graph);

}  // namespace topograd
