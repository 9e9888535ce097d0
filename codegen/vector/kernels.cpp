// Requests for vector kernels, checked, and the shaders that are put together from them.
#include "kernels.hpp"

#include "../../ir/error.hpp"
#include "text.hpp"

#include <bit>

namespace topograd::codegen {
namespace {

constexpr std::array<PushMember, 12> kVectorMembers = {{
    {"count", "elements, blocks or partials"},
    {"first", "position of element 0 in vectors"},
    {"out_first", "position of the first partial"},
    {"out_stride", "between sums of a workgroup"},
    {"blocks_first", "position of block 0"},
    {"slot_a", "place in scalars"},
    {"slot_b", "place in scalars"},
    {"overwrite", "1: store sums, 0: add them"},
    {"masked", "1: some scalars are fixed"},
    {"sums_first", "position of the first partial sum that is read"},
    {"sums_count", "how many there are"},
    {"sums_stride", "between kinds of them"},
}};
constexpr std::size_t kPlainMembers = 9;

bool reads_partials(VectorOp op) {
  return op == VectorOp::cg_start || op == VectorOp::cg_direction || op == VectorOp::cg_update ||
         op == VectorOp::cg_finish || op == VectorOp::schur_product;
}
bool shares_rows(VectorOp op) {
  return op == VectorOp::schur_gradient || op == VectorOp::schur_product;
}
static_assert(sizeof(VectorConstants) == 4 * kVectorMembers.size());

[[noreturn]] void refuse(const VectorKernelRequest& request, const std::string& what) {
  throw Error(ErrorCode::InvalidArgument,
              text("generate: vector kernel ", name(request.op), ": ", what));
}

void check(const VectorKernelRequest& request) {
  if (!std::has_single_bit(request.workgroup_size) || request.workgroup_size > 1024) {
    refuse(request, text("expected a workgroup size that is a power of two up to 1024, got ",
                         request.workgroup_size));
  }
  if (request.vectors == Precision::f64 && request.scalars == Precision::f32) {
    refuse(request, "expected scalars at least as wide as the vectors, got f32 for f64");
  }
  const bool shared = shares_rows(request.op);
  const bool free_width = request.op == VectorOp::segment_sum || shared;
  if (shared && (!std::has_single_bit(request.width) || request.width > request.workgroup_size)) {
    refuse(request, text("expected a width that is a power of two up to ", request.workgroup_size,
                         ", got ", request.width));
  }
  if (request.width == 0 || (!free_width && request.width > kMaxBlockWidth)) {
    refuse(request, text("expected a width of 1 to ", kMaxBlockWidth, ", got ", request.width));
  }
}

std::string shader_name(const VectorKernelRequest& request) {
  std::string out = text("vector_", name(request.op), "_", name(request.vectors));
  if (request.vectors != request.scalars) out += text("_", name(request.scalars));
  if (request.width > 1) out += text("_w", request.width);
  if (request.predicated) out += "_predicated";
  if (request.unpreconditioned) out += "_unpreconditioned";
  if (!request.decides) out += "_follows";
  if (request.step_time == StepTime::later) out += "_later";
  if (request.step_time == StepTime::both) out += "_both";
  return out;
}

}  // namespace

std::string_view name(VectorOp op) {
  switch (op) {
    case VectorOp::fill: return "fill";
    case VectorOp::copy: return "copy";
    case VectorOp::narrow: return "narrow";
    case VectorOp::widen: return "widen";
    case VectorOp::axpby: return "axpby";
    case VectorOp::combine: return "combine";
    case VectorOp::mask: return "mask";
    case VectorOp::dot: return "dot";
    case VectorOp::max_abs: return "max_abs";
    case VectorOp::segment_sum: return "segment_sum";
    case VectorOp::sum_partials: return "sum_partials";
    case VectorOp::max_partials: return "max_partials";
    case VectorOp::point_norms: return "point_norms";
    case VectorOp::trial_point: return "trial_point";
    case VectorOp::scaled_norms: return "scaled_norms";
    case VectorOp::choose_length: return "choose_length";
    case VectorOp::take_step: return "take_step";
    case VectorOp::open_gate: return "open_gate";
    case VectorOp::bounded_norms: return "bounded_norms";
    case VectorOp::bounded_trial: return "bounded_trial";
    case VectorOp::expand: return "expand";
    case VectorOp::contract: return "contract";
    case VectorOp::contract_packed: return "contract_packed";
    case VectorOp::scatter_rows: return "scatter_rows";
    case VectorOp::adam: return "adam";
    case VectorOp::momentum: return "momentum";
    case VectorOp::combine_history: return "combine_history";
    case VectorOp::history_dots: return "history_dots";
    case VectorOp::jacobi_scale: return "jacobi_scale";
    case VectorOp::precondition: return "precondition";
    case VectorOp::apply_preconditioner: return "apply_preconditioner";
    case VectorOp::cg_init: return "cg_init";
    case VectorOp::cg_start: return "cg_start";
    case VectorOp::cg_curvature: return "cg_curvature";
    case VectorOp::cg_update: return "cg_update";
    case VectorOp::cg_direction: return "cg_direction";
    case VectorOp::cg_finish: return "cg_finish";
    case VectorOp::coarse_vectors: return "coarse_vectors";
    case VectorOp::coarse_expand: return "coarse_expand";
    case VectorOp::coarse_answer: return "coarse_answer";
    case VectorOp::coarse_column: return "coarse_column";
    case VectorOp::coarse_panel: return "coarse_panel";
    case VectorOp::coarse_eliminate: return "coarse_eliminate";
    case VectorOp::coarse_restrict: return "coarse_restrict";
    case VectorOp::coarse_multiply: return "coarse_multiply";
    case VectorOp::schur_damping: return "schur_damping";
    case VectorOp::schur_meetings: return "schur_meetings";
    case VectorOp::schur_invert: return "schur_invert";
    case VectorOp::schur_coupling: return "schur_coupling";
    case VectorOp::schur_pieces: return "schur_pieces";
    case VectorOp::schur_blocks: return "schur_blocks";
    case VectorOp::schur_gradient: return "schur_gradient";
    case VectorOp::schur_product: return "schur_product";
    case VectorOp::schur_back: return "schur_back";
    case VectorOp::schur_scatter: return "schur_scatter";
    case VectorOp::matrix_blocks: return "matrix_blocks";
    case VectorOp::matrix_diagonal: return "matrix_diagonal";
    case VectorOp::matrix_multiply: return "matrix_multiply";
    case VectorOp::matrix_product: return "matrix_product";
  }
  return "";
}

std::string_view name(Scalar scalar) {
  switch (scalar) {
    case Scalar::state: return "state";
    case Scalar::zero: return "zero";
    case Scalar::one: return "one";
    case Scalar::minus_one: return "minus_one";
    case Scalar::lambda: return "lambda";
    case Scalar::min_diagonal: return "min_diagonal";
    case Scalar::max_diagonal: return "max_diagonal";
    case Scalar::tolerance: return "tolerance";
    case Scalar::max_iterations: return "max_iterations";
    case Scalar::in_energy: return "in_energy";
    case Scalar::eta: return "eta";
    case Scalar::iterations: return "iterations";
    case Scalar::gains: return "gains";
    case Scalar::rz: return "rz";
    case Scalar::rr: return "rr";
    case Scalar::threshold: return "threshold";
    case Scalar::cost: return "cost";
    case Scalar::trial_cost: return "trial_cost";
    case Scalar::gradient_squared: return "gradient_squared";
    case Scalar::x_squared: return "x_squared";
    case Scalar::gradient_max: return "gradient_max";
    case Scalar::model_decrease: return "model_decrease";
    case Scalar::step_squared: return "step_squared";
    case Scalar::slope: return "slope";
    case Scalar::next_state: return "next_state";
    case Scalar::previous_rz: return "previous_rz";
    case Scalar::alpha: return "alpha";
    case Scalar::pending: return "pending";
    case Scalar::min_gain: return "min_gain";
    case Scalar::min_decrease: return "min_decrease";
    case Scalar::least_gain: return "least_gain";
    case Scalar::least_change: return "least_change";
    case Scalar::longest: return "longest";
    case Scalar::length: return "length";
    case Scalar::is_rescaled: return "is_rescaled";
    case Scalar::rescaled_cost: return "rescaled_cost";
    case Scalar::goes_back: return "goes_back";
    case Scalar::verdict: return "verdict";
    case Scalar::scaled_gradient_squared: return "scaled_gradient_squared";
    case Scalar::scaled_x_squared: return "scaled_x_squared";
    case Scalar::scaled_step_squared: return "scaled_step_squared";
    case Scalar::scaled_gradient_max: return "scaled_gradient_max";
    case Scalar::user: return "user";
  }
  return "";
}

std::array<double, kScalarCount> initial_scalars() {
  std::array<double, kScalarCount> out{};
  out[slot(Scalar::state)] = static_cast<double>(SolverState::limit);
  out[slot(Scalar::one)] = 1;
  out[slot(Scalar::minus_one)] = -1;
  return out;
}

KernelSource generate(const VectorKernelRequest& request) {
  check(request);
  Shader shader;
  VectorText body(request, shader);
  const bool known = write_plain(body) || write_steps(body) || write_box(body) ||
                     write_charts(body) || write_first_order(body) || write_coarse(body) ||
                     write_schur(body) || write_matrix(body) || write_precondition(body) ||
                     write_conjugate_gradients(body);
  if (!known) {
    refuse(request, "expected an op of the table");
  }
  const std::string name = shader_name(request);
  KernelSource out = shader.finish(
      {.name = name,
       .header = {text(name, ": vectors ", codegen::name(request.vectors), ", scalars ",
                       codegen::name(request.scalars), ", blocks of ", request.width)},
       .workgroup_size = request.workgroup_size,
       .push_constants =
           std::span(kVectorMembers)
               .first(reads_partials(request.op) ? kVectorMembers.size() : kPlainMembers)});
  out.float_controls_f32 = request.float_controls_f32;
  out.float_controls_f64 = request.float_controls_f64;
  out.hash.add((request.float_controls_f32 ? 1u : 0u) | (request.float_controls_f64 ? 2u : 0u));
  return out;
}

}  // namespace topograd::codegen
