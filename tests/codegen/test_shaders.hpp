// Small shaders that several tests of codegen compile.
#pragma once

#include <string>

namespace topograd::codegen::test {

/// out[i] = a[i] * scale + shift, with a spec-constant workgroup and three push constants.
inline const std::string kScaleShader = R"(#version 450
layout(local_size_x_id = 7, local_size_y = 2) in;
layout(local_size_x = 32) in;
layout(constant_id = 3) const uint kRepeat = 4u;
layout(push_constant) uniform Push { uint count; float scale; vec2 shift; } push;
layout(set = 0, binding = 0, std430) readonly buffer A_ { float a[]; };
layout(set = 0, binding = 2, std430) buffer Out_ { float result[]; };
layout(set = 1, binding = 0, std430) writeonly buffer Log_ { uvec4 log_words[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= push.count) return;
  precise float y = a[i] * push.scale + push.shift.x;
  for (uint k = 0u; k < kRepeat; ++k) result[i] += y;
  log_words[i] = uvec4(i);
}
)";

}  // namespace topograd::codegen::test
