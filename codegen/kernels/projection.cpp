// Kernel source: projection of stored symmetric matrices to positive semidefinite ones.
#include "projection.hpp"

#include "../../ir/error.hpp"
#include "../glsl/shader.hpp"
#include "kernel_forms.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace topograd::codegen {
namespace {

constexpr std::array<PushMember, 7> kProjectionMembers = {{
    {"count", "end of the matrices of this dispatch"},
    {"first", "matrix of invocation 0"},
    {"stride", "matrices in the buffers"},
    {"width", "rows of a matrix"},
    {"phase", "0: prepare, 1: rotate, 2: subtract"},
    {"row_first", "rows of this dispatch"},
    {"row_end", "end of them"},
}};
static_assert(sizeof(ProjectionConstants) == 4 * kProjectionMembers.size());

constexpr std::string_view kRotationFunctions = R"(
// Place of entry (i, j) in the packed triangle of matrix m.
uint packed_place(uint m, uint i, uint j) {
  uint row = min(i, j);
  uint column = max(i, j);
  return (row * (2u * width - row + 1u) / 2u + column - row) * stride + m;
}

// Turns the plane of p and q so that entry (p, q) of matrix m becomes 0.
void rotate(uint m, uint p, uint q) {
  {T} off_diagonal = rotated[packed_place(m, p, q)];
  {T} a = rotated[packed_place(m, p, p)];
  {T} b = rotated[packed_place(m, q, q)];
  precise {T} cotangent = (b - a) / ({T}(2) * off_diagonal);
  precise {T} size = abs(cotangent) + sqrt(cotangent * cotangent + {T}(1));
  precise {T} t = (cotangent < {T}(0) ? {T}(-1) : {T}(1)) / size;
  precise {T} c = {T}(1) / sqrt(t * t + {T}(1));
  precise {T} s = t * c;
  precise {T} change = t * off_diagonal;
  precise {T} first_value = a - change;
  precise {T} second_value = b + change;
  rotated[packed_place(m, p, p)] = first_value;
  rotated[packed_place(m, q, q)] = second_value;
  rotated[packed_place(m, p, q)] = {T}(0);
  for (uint k = 0u; k < width; ++k) {
    if (k != p && k != q) {
      {T} u = rotated[packed_place(m, k, p)];
      {T} v = rotated[packed_place(m, k, q)];
      precise {T} first_entry = c * u - s * v;
      precise {T} second_entry = s * u + c * v;
      rotated[packed_place(m, k, p)] = first_entry;
      rotated[packed_place(m, k, q)] = second_entry;
    }
    {T} u = eigenvectors[(k * width + p) * stride + m];
    {T} v = eigenvectors[(k * width + q) * stride + m];
    precise {T} first_entry = c * u - s * v;
    precise {T} second_entry = s * u + c * v;
    eigenvectors[(k * width + p) * stride + m] = first_entry;
    eigenvectors[(k * width + q) * stride + m] = second_entry;
  }
}
)";

constexpr std::string_view kBody = R"(
uint entries = width * (width + 1u) / 2u;
{T} greatest = {T}(0);
bool finite = true;
for (uint k = 0u; k < entries; ++k) {
  {T} value = blocks[k * stride + m];
  precise {T} difference = value - value;
  finite = finite && difference == {T}(0);
  greatest = max(greatest, abs(value));
}

if (phase == {PREPARE}) {
  for (uint k = 0u; k < entries; ++k) {
    rotated[k * stride + m] = finite ? blocks[k * stride + m] : {T}(0);
  }
  for (uint k = 0u; k < width * width; ++k) {
    eigenvectors[k * stride + m] = k % (width + 1u) == 0u ? {T}(1) : {T}(0);
  }
} else if (phase == {ROTATE}) {
  precise {T} negligible = greatest * {EPSILON};
  for (uint p = row_first; p < row_end; ++p) {
    for (uint q = p + 1u; q < width; ++q) {
      if (abs(rotated[packed_place(m, p, q)]) > negligible) rotate(m, p, q);
    }
  }
} else {
  for (uint k = row_first; k < row_end; ++k) {
    {T} eigenvalue = rotated[packed_place(m, k, k)];
    if (eigenvalue < {T}(0)) {
      for (uint i = 0u; i < width; ++i) {
        precise {T} scaled = eigenvalue * eigenvectors[(i * width + k) * stride + m];
        for (uint j = i; j < width; ++j) {
          uint place = packed_place(m, i, j);
          precise {T} part = scaled * eigenvectors[(j * width + k) * stride + m];
          precise {T} kept = blocks[place] - part;
          blocks[place] = kept;
        }
      }
    }
  }
}
)";

std::string phase_literal(ProjectionPhase phase) {
  return unsigned_literal(static_cast<std::uint32_t>(phase));
}

// Work of one dispatch, in steps of loops: the software device ends a shader's loops after 65,535.
constexpr std::uint32_t kStepsOfDispatch = 32'768;

}  // namespace

std::vector<ProjectionConstants> projection_dispatches(ProjectionConstants over) {
  const std::uint32_t n = over.width;
  const std::uint32_t rows = std::max(kStepsOfDispatch / (n * n), 1u);
  std::vector<ProjectionConstants> out;
  const auto by_rows = [&](ProjectionPhase phase) {
    over.phase = static_cast<std::uint32_t>(phase);
    for (over.row_first = 0; over.row_first < n; over.row_first = over.row_end) {
      over.row_end = std::min(over.row_first + rows, n);
      out.push_back(over);
    }
  };
  over.phase = static_cast<std::uint32_t>(ProjectionPhase::prepare);
  out.push_back(over);
  for (std::uint32_t sweep = 0; n > 1 && sweep < kProjectionSweeps; ++sweep) {
    by_rows(ProjectionPhase::rotate);
  }
  by_rows(ProjectionPhase::subtract);
  return out;
}

KernelSource generate(const ProjectionRequest& request) {
  if (!std::has_single_bit(request.workgroup_size) || request.workgroup_size > 1024) {
    throw Error(ErrorCode::InvalidArgument,
                text("generate: projection: expected a workgroup size that is a power of two up to "
                     "1024, got ",
                     request.workgroup_size));
  }
  const bool wide = request.precision == Precision::f64;
  Shader shader;
  for (const BufferRole role : {BufferRole::blocks, BufferRole::rotated, BufferRole::eigenvectors})
    shader.use(role, element_of(request.precision), Access::read_write);
  const std::string type(scalar_type(request.precision));
  shader.declare("rotate", substitute(kRotationFunctions.substr(1), {{"T", type}}));
  write_invocation_index("m", shader);
  shader.body().lines(substitute(kBody.substr(1),
                                 {{"T", type},
                                  {"EPSILON", literal(wide ? 0x1p-53 : 0x1p-24, request.precision)},
                                  {"PREPARE", phase_literal(ProjectionPhase::prepare)},
                                  {"ROTATE", phase_literal(ProjectionPhase::rotate)}}));
  return shader.finish(
      {.name = text("project_blocks_", name(request.precision)),
       .header = {text("project_blocks_", name(request.precision),
                       ": symmetric matrices without their negative eigenvalues"),
                  "",
                  text("form        one matrix an invocation, ", name(request.precision), ", ",
                       request.workgroup_size, " invocations a workgroup")},
       .workgroup_size = request.workgroup_size,
       .push_constants = kProjectionMembers,
       .float_controls_f32 = request.float_controls_f32,
       .float_controls_f64 = request.float_controls_f64});
}

}  // namespace topograd::codegen
