// arap(mesh): as-rigid-as-possible deformation with one rotation per vertex.
#pragma once

#include "mesh.hpp"

#include "../../frontend/problem.hpp"
#include "../../ir/share.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::problems {

/// A vertex and its target position.
struct Pin {
  std::uint32_t vertex = 0;
  std::array<double, 3> target = {};
};
/// Weight of pins: the residual is kPinWeight (p_i − c_i).
inline constexpr double kPinWeight = 10;
/// The vertices that arap() gives targets unless it is told others, ascending.
std::vector<Pin> arap_pins(const TriangleMesh& mesh);

/// Reads targets from a file with the line "vertex x y z" for each, where vertices count from 0,
/// and from # to the end of a line is a comment. In the order of the file.
///
///   vertices  of the mesh
///
/// Throws Error{File}, and Error{Parse} ("file:line: expected ..., got ...") for a vertex that is
/// out of range or there twice, numbers that are missing or not finite, further words in a line,
/// and a file without targets.
std::vector<Pin> read_pins(const std::string& path, std::size_t vertices);
std::vector<Pin> parse_pins(std::string_view text, const std::string& name, std::size_t vertices);

/// The problem and its memory.
struct Arap {
  std::vector<double> positions;  ///< p, initially the mesh's vertices
  std::vector<double> rotations;  ///< a, axis times angle, initially 0
  Problem problem;
};

/// Adds p_i − p_j − R(a_i)(u_i − u_j), three rows multiplied by `weight`, for each directed edge of
/// a mesh with the vertices u. Throws what directed_edges() throws.
///
///   slice  of the edges, in their order
void add_rigid_edges(Problem& problem, const Parameters& p, const Parameters& a,
                     const TriangleMesh& mesh, const Uniform* weight = nullptr,
                     Slice slice = {0, ~std::uint64_t{0}});

/// For each directed edge (i, j): p_i − p_j − R(a_i)(u_i − u_j), three rows; for each pin with the
/// target c_i: 10 (p_i − c_i). Without `pins`, with h the range of y, vertices in its lowest 5 %
/// have the target u_i and those in its highest 5 % the target u_i + (0, 0, h/2).
///
///   share  of the residuals, in their order
///
/// Throws Error{InvalidArgument} for a mesh without triangles or with a vertex index out of range.
std::unique_ptr<Arap> arap(const TriangleMesh& mesh, Share share = {});
std::unique_ptr<Arap> arap(const TriangleMesh& mesh, const std::vector<Pin>& pins,
                           Share share = {});

}  // namespace topograd::problems
