// Keys and sizes of kernels of fused expressions.
#include "fused_source.hpp"

#include <algorithm>

namespace topograd::ops::detail {
namespace {

template <class T>
void add_bytes(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

bool FusedForm::strided() const {
  return output == Walk::strided || std::ranges::any_of(inputs, [](const FusedInput& input) {
           return input.walk == Walk::strided;
         });
}

std::uint32_t FusedForm::words(std::uint32_t own) const {
  std::uint32_t count =
      own + program.leaves.uniforms * (precision == codegen::Precision::f64 ? 2 : 1);
  if (strided()) count += rank - 1;
  for (const FusedInput& input : inputs)
    count += (input.half ? 1 : 0) + (input.walk == Walk::strided ? rank : 0);
  return count + (output == Walk::strided ? rank : 0);
}

std::uint32_t FusedForm::arguments() const {
  return static_cast<std::uint32_t>(inputs.size() + program.outputs.size());
}

std::string FusedForm::key() const {
  std::string out;
  for (const ir::Node& node : program.nodes) {
    add_bytes(out, node.op);
    add_bytes(out, node.args);
  }
  out += '|';
  for (const ir::Id id : program.outputs) add_bytes(out, id);
  out += '|';
  for (const FusedInput& input : inputs) {
    add_bytes(out, input.walk);
    add_bytes(out, input.half);
  }
  add_bytes(out, output);
  add_bytes(out, together);
  add_bytes(out, rank);
  add_bytes(out, precision);
  add_bytes(out, program.leaves.uniforms);
  return out;
}

}  // namespace topograd::ops::detail
