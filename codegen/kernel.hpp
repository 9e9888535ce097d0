// What a kernel is asked to be, and the source that is made of it.
#pragma once

#include "../ir/hash.hpp"
#include "../ir/program.hpp"
#include "element.hpp"
#include "layout.hpp"

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::codegen {

/// Kernels are f32 or f64. `mixed` is for solves alone: point, residuals, cost and gradient in f64,
/// the linear system in f32.
enum class Precision { f32, f64, mixed };
std::string_view name(Precision precision);

/// How the outputs of all instances come together.
enum class Form {
  store,   ///< out[out_first + k * out_stride + i] = output k of instance i (residual, jacobian,
           ///< jvp)
  reduce,  ///< one partial sum of output 0 a workgroup, by a tree; any number of workgroups will do
  scatter,  ///< atomically out[out_first + index of slot targets[k]] += output k (gradient, jtjp,
            ///< vjp)
  gather,   ///< each work item evaluates the entries of one owner and sums (gradient, jtjp, blocks)
  sum_terms  ///< each work item sums the stored terms of one owner (second half of gather_store)
};
std::string_view name(Form form);

/// The ladder of DESIGN §8. The gather rungs need nothing of the device.
enum class Accumulation { gather_store, gather_recompute, atomic_float, atomic_cas };
std::string_view name(Accumulation accumulation);
/// Throws Error{InvalidArgument} that lists the names.
Accumulation parse_accumulation(std::string_view text);

/// Where an index slot (a parameter or a uniform) of an instance comes from.
struct IndexSource {
  /// column: stored by row, column c at c * stride. flexible: wherever its form says.
  enum class Kind { column, flexible } kind = Kind::column;
  std::uint32_t column = 0;  ///< below index_columns
  std::int32_t offset = 0;   ///< added to what is there (a Vec3 needs one column, not three)
  std::uint32_t form = 0;    ///< flexible: number of its form
  friend bool operator==(const IndexSource&, const IndexSource&) = default;
};

/// Where a data slot comes from.
struct DataSource {
  enum class Kind { column, flexible } kind = Kind::column;
  std::uint32_t column = 0;  ///< below data_columns; flexible: number of its form, too
  friend bool operator==(const DataSource&, const DataSource&) = default;
};

/// How the columns of a batch are stored.
///
/// What is stored of a flexible column is not part of the kernel: push constants say for each
/// dispatch whether its rows have numbers of their own or share one (ColumnForm), and whether an
/// index grows by a step from row to row (gather: by one with the owner's first index). One kernel
/// is right for any columns, and columns that need not be stored cost no bandwidth.
struct ColumnLayout {
  std::vector<IndexSource> parameters;  ///< by parameter slot
  std::vector<IndexSource> uniforms;    ///< by uniform slot
  std::vector<DataSource> data;         ///< by data slot
  std::uint32_t index_columns = 0;      ///< u32 columns
  std::uint32_t data_columns = 0;       ///< columns of numbers
  friend bool operator==(const ColumnLayout&, const ColumnLayout&) = default;
};
/// Every slot has a column of its own, stored by row.
ColumnLayout general_layout(const ir::LeafCounts& leaves);

/// The push constant that places a flexible column in its buffer.
constexpr std::uint32_t form_by_row(std::uint32_t first) { return first << 1 | 1; }
constexpr std::uint32_t form_shared(std::uint32_t position) { return position << 1; }

/// A word of push constants behind those of PushConstants.
struct ColumnForm {
  enum class Word {
    index,  ///< form_by_row or form_shared, in index_columns
    step,   ///< of index form `form`: added times the row, or times the owner's first index
    data    ///< form_by_row or form_shared, in data_columns
  } word = Word::index;
  std::uint32_t form = 0;
  friend auto operator<=>(const ColumnForm&, const ColumnForm&) = default;
};
/// So many of these words fit besides PushConstants on every device.
inline constexpr std::uint32_t kMostFormWords = 16;

/// For Form::gather: one role is one way in which an instance touches an owner (the tail of an
/// edge, its head). An owner is a block of `owner_width` neighbouring scalars; the x index of one
/// of them is x_first + owner * owner_width + coordinate.
struct GatherRole {
  std::vector<std::uint32_t> slots;        ///< parameter slots that lie in the owner in this role
  std::vector<std::uint32_t> coordinates;  ///< coordinate of each of them in the owner's block
  ir::Program program;                     ///< what is summed; its outputs go to `targets`
  std::vector<std::uint32_t> targets;      ///< position in the owner's `out_width` sums, by output
  ColumnLayout layout;                     ///< columns of an entry; own slots' sources are not read
  /// A fused kernel only, behind all other roles: a role of another batch, in which few owners have
  /// entries. Its columns are the rider buffers.
  bool rides = false;
  /// Its program gives KernelRequest::values behind what is summed; one role at most.
  bool gives_values = false;
};

/// Form::gather of the JᵀJ·p of a conjugate-gradient iteration with what comes before and after it
/// (VectorOp::cg_direction, cg_curvature): tangents are preconditioned + β direction, and partial
/// sums of p·q go to `curvature`, one a workgroup.
enum class Fusion {
  none,
  adds,    ///< to a product that another kernel has begun
  begins,  ///< every owner's sums: adds damping p, stores p in next_direction
  decides  ///< begins, and stores state, rz, rr in `decision`
};

/// What a store, scatter or gather gives besides, by the same evaluation of each instance: the next
/// output of the program is a part of the cost, the ones behind it are rows.
struct BesideValues {
  bool given = false;      ///< one partial sum of the cost a workgroup goes to `costs`
  std::uint32_t rows = 0;  ///< stored in `rows`, row k of instance i at k * rows_stride + i
};

struct KernelRequest {
  std::string name;   ///< e.g. "springs_gradient"; letters, digits and underscores
  std::string title;  ///< one line for the header, e.g. "gradient of topology 1f3a..., springs"
  Form form = Form::store;
  Precision precision = Precision::f64;
  /// Read by Form::scatter: a rung of atomics.
  Accumulation accumulation = Accumulation::gather_recompute;
  std::uint32_t workgroup_size = 128;  ///< a power of two, at most 1024
  // store, reduce, scatter:
  ir::Program program;
  ColumnLayout layout;
  std::vector<std::uint32_t> targets;  ///< scatter: parameter slot whose place output k is added to
  // gather, sum_terms:
  std::vector<GatherRole> roles;  ///< sum_terms reads roles' slots and targets only
  std::uint32_t owner_width = 1;  ///< scalars of an owner in x
  std::uint32_t out_width = 1;    ///< sums of an owner in out: w for vectors, w(w+1)/2 for blocks
  /// gather, sum_terms: work item w is owner w and writes the sums of owner w; `owners` and
  /// `outputs` are not read.
  bool dense_owners = false;
  /// gather, sum_terms: work item w is a workgroup's, whose invocations take its entries in turn; a
  /// tree of fixed shape sums what they have. For items of many entries.
  bool workgroup_items = false;
  /// workgroup_items: of the tree at most, in bytes; one number an invocation is taken at least.
  /// Changes no result.
  std::uint32_t tree_bytes = 8192;
  // wishes:
  bool use_subgroups = false;  ///< reduce: the device has subgroup arithmetic
  bool wide_sums = false;      ///< reduce, values: partial sums are f64 whatever `precision` is
  /// Store, scatter, gather, sum_terms: return at once where Scalar::state in the scalar buffer is
  /// not 0 (vector/kernels.hpp), so that a solve that is over costs next to nothing.
  bool predicated = false;
  Precision scalars = Precision::f64;  ///< predicated, fused: of the scalar buffer
  Fusion fusion = Fusion::none;        ///< gather
  /// Store, scatter, gather; neither predicated nor fused. Such a kernel runs its invocations in
  /// grid-stride loops, but for work items of workgroups.
  BesideValues values;
  /// Preserve signed zero, infinities, NaN and denormals of that width.
  bool float_controls_f32 = false, float_controls_f64 = false;
  // names in the source, by slot; each one is used if it is a lower-case identifier with an
  // underscore inside (so no keyword), or one of the letters afghjlmnqrvyz and digits, or x and
  // digits, that nothing else has; otherwise p0, d0, u0 ... A tangent is
  // its parameter's name after a "d", seeds are s0, s1 ...
  std::vector<std::string> parameter_names, data_names, uniform_names;
};

/// What a binding of a kernel is for. The host binds by role; a binding appears only where it is
/// used, and bindings are numbered in this order.
enum class BufferRole {
  x,              ///< point, precision of the kernel
  direction,      ///< tangents, by the same index as x
  seeds,          ///< adjoints: row k of instance i at k * out_stride + i (gather: i = entries[e])
  uniforms,       ///< numbers shared by instances
  index_columns,  ///< u32, column c of instance (or entry) i at c * stride + i, or by its form
  data_columns,   ///< numbers, likewise
  starts,   ///< u32, entries of work item w in role r: starts[w * roles + r], ... up to the next
            ///< start
  owners,   ///< gather: u32, owner of work item w
  outputs,  ///< gather, sum_terms: u32, position of work item w in out (an owner, or a partial sum)
  terms,    ///< sum_terms: output k of a role for entry e at entries[e] + slots[k] * out_stride
  entries,  ///< sum_terms, gather with seeds or rows: u32, position of the entry's instance
  out,      ///< results
  failures,  ///< reduce of a program with guards: u32, [0] counts instances that failed one
  // vector/kernels.hpp:
  scalars,         ///< the solver's numbers, by Scalar
  partials,        ///< partial sums of workgroups
  fixed,           ///< u32 by scalar of x: 1 = held constant
  first_operand,   ///< a vector that is read
  second_operand,  ///< another one
  result,          ///< a vector that is written
  gradient,        ///< Jᵀr
  step,            ///< δ
  residual,        ///< of the damped normal equations
  product,         ///< (JᵀJ + Λ) p
  preconditioned,  ///< z
  scale,           ///< Jacobi scaling
  damping,         ///< Λ, the diagonal that is added to JᵀJ
  blocks,          ///< diagonal blocks of JᵀJ, packed upper triangles
  inverse,         ///< inverses of the damped blocks
  // projection.hpp:
  rotated,       ///< scratch: matrices on their way to diagonal form
  eigenvectors,  ///< scratch
  // conjugate gradients:
  next_direction,  ///< p of this iteration, where `direction` is that of the one before
  decision,        ///< scalars that a direction leaves to the rest of its iteration
  curvature,       ///< partial sums of p·q
  // roles that ride in a fused kernel:
  rider_owners,  ///< u32, two for each 32 owners: a bit for each that has entries; how many before
  rider_starts,  ///< u32, as `starts`, counted over the owners that have entries
  rider_index_columns,  ///< u32, column c of entry e at c * rider_stride + e
  rider_data_columns,   ///< numbers, likewise
  // steps within a box:
  lower_bounds,  ///< by scalar of x
  upper_bounds,
  held,  ///< u32 by scalar of x: 1 = fixed, or on a bound that the gradient holds it to
  // the two-level preconditioner:
  coarse_vectors,  ///< vector f at entry e: f * entries + e
  coarse_matrix,   ///< dense, by rows; as wide as sums
  coarse_in,       ///< coarse unknowns, or a matrix, that are read; as wide as sums
  coarse_out,      ///< those that are written
  // values beside a kernel's own results:
  costs,  ///< partial sums of the cost, one a workgroup
  rows,   ///< residuals
};
inline constexpr std::size_t kBufferRoles = static_cast<std::size_t>(BufferRole::rows) + 1;

struct BindingInfo {
  BufferRole role;
  std::uint32_t binding = 0;
  Element element = Element::f32;
  bool writes = false;
  bool reads = true;
  std::string name;  ///< in the shader
};

/// Push constants of the kernels of generate(), which declare as many as they need. The words of
/// KernelSource::forms follow.
struct PushConstants {
  std::uint32_t count = 0;       ///< end of the instances (or work items) of this dispatch
  std::uint32_t first = 0;       ///< instance of invocation 0
  std::uint32_t stride = 0;      ///< of index and data columns
  std::uint32_t out_stride = 0;  ///< between outputs of a store, rows of seeds, slots of terms
  std::uint32_t out_first =
      0;                      ///< added to positions in out (reduce: first partial of the dispatch)
  std::uint32_t x_first = 0;  ///< gather: x index of owner 0's first scalar
  std::uint32_t overwrite =
      0;  ///< gather, sum_terms: 1 stores the sums, 0 adds them to what is there
  std::uint32_t zero_bits = 0;  ///< always 0
  // fused kernels: partial sums of r·z and r·r, and where those of p·q begin
  std::uint32_t sums_first = 0, sums_count = 0, sums_stride = 0, curvature_first = 0;
  std::uint32_t rider_stride = 0;  ///< of rider columns

  // of kernels that give values besides, in words that fused ones alone have otherwise
  std::uint32_t& costs_first() { return sums_first; }  ///< where workgroup 0's part goes
  std::uint32_t& rows_stride() { return sums_count; }  ///< between rows
};

struct KernelSource {
  std::string name;
  std::string glsl;
  std::vector<BindingInfo> bindings;
  std::vector<std::string> push_constants;  ///< names of the uint members
  std::vector<ColumnForm> forms;            ///< the last of them
  std::uint32_t workgroup_size = 0;
  std::uint32_t operations = 0;  ///< of one instance
  std::uint32_t bytes_per_instance =
      0;  ///< columns read (gather: of one entry a role), results written
  bool needs_float64 = false, needs_int64_atomics = false, needs_atomic_float = false,
       needs_subgroups = false;
  bool float_controls_f32 = false, float_controls_f64 = false;  ///< to be added to the module
  ir::Hash128 hash;  ///< of everything that changes the module; titles do not
};

/// What reflection must find in the compiled kernel.
ExpectedLayout expected_layout(const KernelSource& source);

/// Writes the shader. Deterministic: the same request gives the same bytes on every machine.
/// Throws Error{InvalidArgument} for a request that contradicts itself.
KernelSource generate(const KernelRequest& request);

}  // namespace topograd::codegen
