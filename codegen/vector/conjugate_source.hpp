// The beginning of kernels of conjugate gradients: sums of partial sums, and their consequences.
#pragma once

#include "../glsl/reduction.hpp"
#include "../glsl/shader.hpp"
#include "kernels.hpp"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace topograd::codegen {

/// Name of its constant in GLSL: RZ.
std::string constant_name(Scalar scalar);

/// Notes the use of a scalar buffer, and declares constants named after the places: RZ, THRESHOLD.
void use_scalars(Shader& shader, BufferRole role, Precision precision,
                 std::initializer_list<Scalar> places, Access access = Access::read);

/// Declares workgroup_broadcast(): what invocation 0 has, in every invocation.
void declare_broadcast(Shader& shader, Precision precision);

/// Writes the statements that every workgroup runs before its own work. Returns in them are the
/// same for all invocations of a dispatch.
class ConjugateSource {
 public:
  ConjugateSource(Shader& shader, Precision scalars, std::uint32_t workgroup_size,
                  bool use_subgroups = false)
      : shader_(shader),
        scalars_(scalars),
        sums_(scalars, workgroup_size, use_subgroups),
        group_(workgroup_size) {}

  /// Declares rz, rr, state and beta; returns where state is not running. One invocation of the
  /// dispatch writes state, rz, rr to the decision buffer if it `decides`.
  void open_direction(bool decides);
  /// Declares rz and rr, and changes state where these end the solve.
  void decide();

 private:
  /// Declares the sums of runs of partial sums, which follow each other.
  void totals(std::initializer_list<std::string_view> names);
  /// {S} and state names in `pattern` filled in.
  void lines(std::string_view pattern);

  Shader& shader_;
  Precision scalars_;
  Summation sums_;
  std::uint32_t group_;
};

}  // namespace topograd::codegen
