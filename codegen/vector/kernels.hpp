// Kernels of the solver's vector operations: norms, preconditioner and conjugate gradients on a
// device.
#pragma once

#include "../kernel.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace topograd::codegen {

/// Places in the scalar buffer, through which kernels hand each other numbers without the host.
enum class Scalar : std::uint32_t {
  state,      ///< SolverState of conjugate gradients; predicated kernels run only at 0
  zero,       ///< always 0: as a factor, what it multiplies is not read
  one,        ///< always 1
  minus_one,  ///< always -1
  // set by the host before a solve
  lambda,  ///< λ >= 0 of Λ_j = λ clamp(s_j² H_jj, min_diagonal, max_diagonal) / s_j²
  min_diagonal,
  max_diagonal,
  tolerance,       ///< at which conjugate gradients stop: ‖residual‖ over what it was
  max_iterations,  ///< >= 1
  in_energy,       ///< 1: the tolerance is on r·z, 0: on r·r
  eta,  ///< they stop by their gain, too, as runtime/cpu/linear/conjugate_gradients.hpp has it
  // conjugate gradients
  iterations,  ///< done so far
  gains,       ///< Σ α r·z of these: by how much they have lowered xᵀA x − 2 bᵀx
  rz,          ///< r·z
  rr,          ///< r·r
  threshold,   ///< r·r at which to stop, or r·z
  // for the host to read
  cost,
  trial_cost,
  gradient_squared,  ///< ‖g‖² over free scalars; x_squared follows it
  x_squared,         ///< ‖x‖² over free scalars
  gradient_max,      ///< max |g_j|
  model_decrease,    ///< −g·δ − ½ δᵀJᵀJδ; step_squared and slope follow it
  step_squared,      ///< ‖δ‖²
  slope,             ///< g·δ; of bounded_trial
  // between the two halves of an iteration, beside iterations and state
  next_state,   ///< SolverState that the update leaves to the next direction
  previous_rz,  ///< r·z of the direction before
  alpha,        ///< of the last update that left its step for later
  pending,      ///< step += pending p is left to do, p being that update's
  // set by the host, where the device takes the step itself
  min_gain,       ///< the step is refused at this gain, the cost's decrease over the model's
  min_decrease,   ///< Armijo's constant: more has to be decided where the cost falls less; 0: no
  least_gain,     ///< steps of gains above it may get another length
  least_change,   ///< that differs from 1 by so much at least
  longest,        ///< and is so long at most
  length,         ///< of the step at the trial point, over that of δ
  is_rescaled,    ///< 1: the length is not 1, 0: it is
  rescaled_cost,  ///< at the point of that length
  goes_back,      ///< 1: the trial point goes back to the full step, 0: it stays
  verdict,        ///< Verdict
  // for the host to read: norms with scalars times h_j = √H_jj, those with h_j = 0 left out
  scaled_gradient_squared,  ///< Σ (g_j / h_j)²; the next two follow it
  scaled_x_squared,         ///< Σ (h_j x_j)²
  scaled_step_squared,      ///< Σ (h_j δ_j)², δ being the step that led to x
  scaled_gradient_max,      ///< max |g_j| / h_j
  user,  ///< this place and those after it are free: seven are taken at once at most
};
inline constexpr std::uint32_t kScalarCount = 49;
static_assert(static_cast<std::uint32_t>(Scalar::user) + 7 <= kScalarCount);
std::string_view name(Scalar scalar);
constexpr std::uint32_t slot(Scalar scalar) { return static_cast<std::uint32_t>(scalar); }

enum class SolverState : std::uint32_t {
  running,
  converged,  ///< r·r, or r·z, <= threshold, or little is gained
  breakdown,  ///< p·q or r·z was not positive and finite
  limit,      ///< max_iterations are done
};

/// What a device makes of a trial point.
enum class Verdict : std::int32_t {
  undecided = -1,  ///< the solver has not finished, or the cost falls too little
  refused,
  accepted
};

/// A scalar buffer before anything has run: constants set, state `limit`, the rest 0.
std::array<double, kScalarCount> initial_scalars();

/// Elements are 32-bit or 64-bit floats of `vectors` precision, sums and scalars of `scalars`
/// precision. Loops stride over the grid, so that any number of workgroups gives a result; sums
/// depend on that number alone. "Scalars" of x are its entries; element i of a vector is v[first +
/// i]. Block kernels take `count` blocks of `width` neighbouring scalars, block b at v[first + b *
/// width]; its packed upper triangle is blocks[blocks_first + b * w(w+1)/2 + k], entry k of its
/// inverse is inverse[blocks_first + k * count + b]. A workgroup's sum number v goes to
/// partials[out_first + v * out_stride + workgroup].
enum class VectorOp {
  // plain; with `predicated` they return at once unless state is 0
  fill,         ///< result = scalars[a]
  copy,         ///< result = first_operand
  narrow,       ///< the same, from elements as wide as scalars
  widen,        ///< the same, to elements as wide as scalars
  axpby,        ///< result = scalars[a] first_operand + scalars[b] result
  combine,      ///< result = scalars[a] first_operand + scalars[b] second_operand
  mask,         ///< result = 0 where fixed
  dot,          ///< partials: Σ first_operand second_operand
  max_abs,      ///< partials: max |first_operand|; NaN if there is one
  segment_sum,  ///< for w < count: row outputs[w] of result (+)= rows starts[w] ... starts[w + 1]
                ///< of
                ///< first_operand; rows of `width` numbers, those of result counted from `first`
  // one workgroup for each sum: number v of `count` partials gives scalars[a + v]
  sum_partials,
  max_partials,
  // reports
  point_norms,  ///< gradient = 0 where fixed; partials: Σ g², Σ x² (first_operand), max |g|
  trial_point,  ///< result = first_operand + step; partials: model decrease, Σ step²
  // by blocks
  scaled_norms,  ///< partials: Σ g²/H, Σ H x² (first_operand), Σ H step², max |g|/√H, H being the
                 ///< diagonal of blocks
  // taking steps; one workgroup. Costs, model_decrease and slope are scalars; outputs = starts,
  // u32,
  // where what is behind the gate is to run, else 0
  choose_length,  ///< length: where a parabola through point, slope and trial has its minimum; the
                  ///< gate: is_rescaled
  take_step,  ///< verdict, goes_back; trial_cost, model_decrease and length of the better of the
              ///< two lengths; the gate: accepted
  open_gate,  ///< scalars[a] > 0
  // within a box [lower_bounds, upper_bounds], which Π projects on
  bounded_norms,  ///< as point_norms, with v = x − Π(x − g) in the place of g in its sums; held =
                  ///< fixed, or on a bound that −g points out of; gradient = 0 where held
  bounded_trial,  ///< result = Π(first_operand + scalars[a] step); partials: model decrease,
                  ///< Σ (result − first_operand)², g·step
  // blocks on manifolds: block b < count lies at outputs[b]; entry (i, j) of its basis P, a square
  // matrix, is second_operand[(i * width + j) * count + b]
  expand,           ///< result = P first_operand
  contract,         ///< result = Pᵀ result
  contract_packed,  ///< blocks = Pᵀ blocks P; the packed triangle of block b is at starts[b]
  scatter_rows,     ///< coordinate j of a block of result = scalars[a] first_operand[j * count + b]
                    ///< + scalars[b] second_operand, a vector here
  // steps along gradients: result = first_operand + δ, direction = mean of gradients, scale = mean
  // of their squares; the rule's numbers are scalars from place a on; partials: Σ δ²
  adam,      ///< rate, β₁, β₂, 1 − β₁ᵗ, 1 − β₂ᵗ, ε, decay
  momentum,  ///< rate, momentum
  // directions from vectors that follow each other in second_operand, `first` elements apart
  combine_history,  ///< result = coarse_in[0] gradient (overwrite = 0: result) + Σ_v coarse_in[
                    ///< blocks_first + v] vector v, v < slot_a; vectors with factor 0 are not read;
                    ///< partials: result·gradient, Σ result²
  history_dots,     ///< slot_b workgroups a vector; partials: vector v · step, first_operand and
                    ///< gradient
  // preconditioner, by blocks
  jacobi_scale,  ///< scale_j = 1 / (scalars[a] + u_j + √H_jj), 0 for 1/0, with u_j = scalars[b]
                 ///< √(2 cost) / |x_j| (first_operand), or 0 where x_j is 0
  precondition,  ///< damping (without clamps where scale_j = 0), and inverse of each damped block;
                 ///< rows of fixed scalars are the identity's.
  ///< Blocks that are not positive definite in the precision give way to their diagonal
  apply_preconditioner,  ///< result = inverse first_operand
  // conjugate gradients on (JᵀJ + Λ) step = −gradient; direction is p. An iteration is a direction,
  // the product, its curvature, and an update; every workgroup sums the partials that it needs
  // itself, so that no kernel in between does. (Form::gather can be direction, product and
  // curvature
  // in one: kernel.hpp, Fusion.)
  cg_init,       ///< by blocks: step = direction = 0, residual = −gradient (0 where fixed),
                 ///< preconditioned = inverse residual; partials: r·z, r·r
  cg_start,      ///< one workgroup: threshold; iterations, gains and pending = 0, next_state =
                 ///< running
  cg_direction,  ///< direction = preconditioned + β direction; decision: state, rz, rr
  cg_curvature,  ///< product = product + damping direction; curvature: p·q
  cg_update,     ///< by blocks: step += α p, residual −= α q (0 where fixed), preconditioned =
                 ///< inverse residual; partials as init; iterations, gains, next_state, previous_rz
  cg_finish,     ///< one workgroup: state, rz, rr of the iterations so far, pending = 0
  // two-level preconditioner (runtime/linear/coarse_plan.hpp), `width` vectors on each aggregate;
  // `count`
  // entries, which are listed in entries, and their aggregates in owners
  coarse_vectors,  ///< by number of `count`: first_operand ± x[entries[i]], high bit: minus
  coarse_expand,   ///< result at the entries (+)= Σ_f coarse_in[first + g * width + f] vector f
  coarse_answer,   ///< where outputs[e] != 0: vector f in result −= coarse_in (as before)
                   ///< first_operand
  coarse_column,   ///< a workgroup an aggregate: vectors · (first_operand + damping direction) to
                   ///< column slot_a of that neighbour, outputs[first + g], of matrix coarse_out
  coarse_panel,    ///< by column: partials = slot_a rows of coarse_in from `first` on, times the
                   ///< inverse of their block; at most `width` rows
  coarse_eliminate,  ///< inverts a matrix of out_stride rows panel by panel: these rows, by
                     ///< partials
  coarse_restrict,   ///< a workgroup an aggregate: coarse_out = vectors · first_operand
  coarse_multiply,   ///< a workgroup a row: coarse_out = coarse_matrix coarse_in; partials: their
                     ///< products, and 0
  // Schur complement S = B + Λ − E C⁻¹ Eᵀ of a matrix [B E; Eᵀ C] (runtime/linear/schur_plan.hpp,
  // whose
  // words are in `entries`, `outputs` and `starts`); matrices of slot_a rows, slot_b columns,
  // numbers
  // `first` to first + count / (slot_a slot_b) of their list
  schur_damping,   ///< damping, of scalars whose diagonal entries lie at `entries` of blocks
  schur_meetings,  ///< result (+)= products of columns of a Jacobian, first_operand, that `owners`
                   ///< names by group of slots and coordinate; 0 where fixed
  schur_invert,    ///< inverses of damped blocks, NaN where one is not positive definite; those of
                   ///< fixed scalars are the identity's
  schur_coupling,  ///< result = E C⁻¹: first_operand times inverse
  schur_pieces,    ///< result = sums of first_operand second_operandᵀ
  schur_blocks,    ///< result = S from blocks of B, damping, meetings, second_operand, and pieces,
                   ///< first_operand; rotated: its packed diagonal blocks
  // `width` invocations share a row
  schur_gradient,  ///< result = gradient − E C⁻¹ gradient, E C⁻¹ being first_operand
  schur_product,   ///< cg_direction to next_direction, product with S, first_operand, and
                   ///< cg_curvature in one
  schur_back,  ///< step = −C⁻¹ gradient − (E C⁻¹)ᵀ first_operand, E C⁻¹ being second_operand
  schur_scatter,  ///< step and residual at `owners` = first_operand and second_operand
  // JᵀJ by rows of blocks (runtime/linear/normal_plan.hpp), whose words are in `outputs` and
  // `entries`
  matrix_blocks,    ///< as schur_meetings, to both triangles of result; nothing is fixed
  matrix_diagonal,  ///< diagonal blocks of result = blocks
  // by rows of blocks of width `width` from row `first` on, which lie at blocks_first of vectors;
  // slot_a invocations, a power of two, share one
  matrix_multiply,  ///< product = first_operand direction
  matrix_product,   ///< the same with damping: cg_curvature in one with it
};
inline constexpr std::uint32_t kVectorOpCount =
    static_cast<std::uint32_t>(VectorOp::matrix_product) + 1;
std::string_view name(VectorOp op);

/// Widest block of the block kernels; wider arrays are preconditioned as blocks of width 1.
inline constexpr std::uint32_t kMaxBlockWidth = 16;

/// When cg_update changes the step. Where directions take turns in two buffers, every other update
/// can change it by two directions at once, which reads and writes it half as often.
enum class StepTime {
  now,
  later,  ///< not at all; alpha and pending are left
  both    ///< by this direction, and by the one before, next_direction, with its alpha
};

struct VectorKernelRequest {
  VectorOp op = VectorOp::fill;
  Precision vectors = Precision::f64;
  Precision scalars = Precision::f64;  ///< the widest of the device, not below `vectors`
  std::uint32_t workgroup_size = 128;  ///< a power of two, at most 1024
  std::uint32_t width = 1;  ///< block kernels, segment_sum: 1 to kMaxBlockWidth (segment_sum: any);
                            ///< kernels whose rows are shared: a power of two up to workgroup_size
  bool predicated = false;  ///< plain kernels; those of the two-level preconditioner: by next_state
  bool unpreconditioned = false;  ///< cg_init, cg_update: z = r, which is not stored
  /// cg_update, where several of them make up one update: writes the scalars.
  bool decides = true;
  StepTime step_time = StepTime::now;  ///< cg_update; another one only where it decides
  bool float_controls_f32 = false, float_controls_f64 = false;
};

/// Push constants of the vector kernels.
struct VectorConstants {
  std::uint32_t count = 0;       ///< elements, blocks or partials
  std::uint32_t first = 0;       ///< position of element 0 in the vectors
  std::uint32_t out_first = 0;   ///< position of workgroup 0's partial (sum_partials: of the first)
  std::uint32_t out_stride = 0;  ///< between the sums of one workgroup in partials
  std::uint32_t blocks_first = 0;  ///< position of the array in `blocks` and `inverse`
  std::uint32_t a = slot(Scalar::one), b = slot(Scalar::zero);  ///< places in the scalar buffer
  std::uint32_t overwrite = 1;  ///< segment_sum: 1 stores the sums, 0 adds them
  /// 1: kernels that mention `fixed` (and dot, max_abs) read that buffer; 0: nothing is fixed.
  /// (mask and those of boxes and manifolds always read it.)
  std::uint32_t masked = 0;
  // conjugate gradients: the partial sums that are read
  std::uint32_t sums_first = 0, sums_count = 0, sums_stride = 0;
};

/// Writes the shader, as generate() does. Throws Error{InvalidArgument} for sizes out of range.
KernelSource generate(const VectorKernelRequest& request);

}  // namespace topograd::codegen
