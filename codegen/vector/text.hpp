// The bodies of vector kernels by op; generate() puts the rest around them.
#pragma once

#include "../glsl/reduction.hpp"
#include "../glsl/shader.hpp"
#include "conjugate_text.hpp"
#include "kernels.hpp"

#include <initializer_list>
#include <string>
#include <string_view>

namespace topograd::codegen {

/// Writes statements of one vector kernel. In patterns {T} is the type of vectors, {S} that of sums
/// and scalars, {W} the block width, {P} the packed size of a block, {G} the workgroup size.
class VectorText {
 public:
  VectorText(const VectorKernelRequest& request, Shader& shader);

  const VectorKernelRequest& request() const { return request_; }
  std::uint32_t width() const { return request_.width; }
  std::uint32_t packed() const { return request_.width * (request_.width + 1) / 2; }

  void read(std::initializer_list<BufferRole> vectors) { use(vectors, Access::read); }
  void write(std::initializer_list<BufferRole> vectors) { use(vectors, Access::write); }
  void update(std::initializer_list<BufferRole> vectors) { use(vectors, Access::read_write); }
  void read_u32(BufferRole role) { shader_.use(role, Element::u32); }
  /// The scalar buffer, and constants named after the places: RZ, ALPHA.
  void scalars(std::initializer_list<Scalar> places, Access access = Access::read);
  /// Returns where the solver is done, as the scalars in `role` say.
  void predicate(BufferRole role = BufferRole::scalars);
  /// What kernels of conjugate gradients begin with.
  ConjugateText conjugate() { return {shader_, request_.scalars, request_.workgroup_size}; }

  void lines(std::string_view pattern);
  /// The pattern once for each coordinate of a block, {j} being its number and {k} its position: k
  /// + 2u.
  void each(std::string_view pattern);
  /// for (uint i = ...; i < `end`; ...) { over the whole grid.
  void open_grid(std::string_view variable, std::string_view end = "count");
  void close() { shader_.body().close(); }

  void begin_sum(std::string_view name) { sums_.begin(shader_, name); }
  /// Adds `pattern`, an expression of type {S}.
  void add(std::string_view name, std::string_view pattern);
  /// Stores workgroup sum number `index` into the partials.
  void store_partial(std::uint32_t index, std::string_view name,
                     BufferRole role = BufferRole::partials);
  /// The sum over the workgroup, an expression valid in invocation 0. Every invocation comes by.
  std::string workgroup_total(std::string_view name) { return sums_.total(shader_, name); }
  void store_partial_max(std::uint32_t index, std::string_view name);
  /// Declares `total`, the sum of one run of `count` partials, in every invocation but valid in
  /// invocation 0.
  void total_of_partials(std::string_view total, std::string_view from,
                         std::string_view count = "count");
  /// {expression} is no number or infinite.
  std::string not_finite(std::string_view expression);
  std::string fill(std::string_view pattern) const;

  Shader& shader() { return shader_; }

 private:
  void use(std::initializer_list<BufferRole> vectors, Access access);
  void partial(std::uint32_t index, const std::string& expression, BufferRole role);

  const VectorKernelRequest& request_;
  Shader& shader_;
  Summation sums_;
};

/// Writes the body of a plain op or report; false if the op is not one of these.
bool write_plain(VectorText& out);
/// Writes the body of an op that takes steps; false if the op is not one of these.
bool write_steps(VectorText& out);
/// Writes the body of an op of steps within a box; false if the op is not one of these.
bool write_box(VectorText& out);
/// Writes the body of an op of the two-level preconditioner; false if the op is not one of these.
bool write_coarse(VectorText& out);
/// Writes the body of an op of the Schur complement; false if the op is not one of these.
bool write_schur(VectorText& out);
/// Writes the body of an op of JᵀJ by rows of blocks; false if the op is not one of these.
bool write_matrix(VectorText& out);
/// Writes the body of an op of blocks on manifolds; false if the op is not one of these.
bool write_charts(VectorText& out);
/// Writes the body of a step along gradients; false if the op is not one of these.
bool write_first_order(VectorText& out);
/// Writes the body of a preconditioner or conjugate-gradient op; false if the op is not one of
/// these.
bool write_precondition(VectorText& out);
bool write_conjugate_gradients(VectorText& out);

/// Declares packed(width, i, j): the place of an entry in the packed upper triangle of a block.
void use_packed(VectorText& out);
/// An invocation an entry: row a and column b of the block `name`, which has slot_a x slot_b of
/// them.
void open_entries(VectorText& out, const std::string& name);
/// sum = Σ over the entries of block m of a product of two columns of a Jacobian, first_operand, of
/// blocks_first rows and out_first columns, out_stride instances; `owners` names columns by group
/// of slots and coordinate.
void add_jacobian_products(VectorText& out);

/// z_j = Σ inverse_jk r_k of block `b`, from r_0, r_1, ... in the shader.
void write_apply_inverse(VectorText& out);

}  // namespace topograd::codegen
