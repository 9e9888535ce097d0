// Compute kernels written by hand: GLSL bodies, and the declarations that are written around them.
#pragma once

#include "../../ir/hash.hpp"
#include "type.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::ops {

enum class Access : std::uint8_t {
  read,
  write,
  read_write,
  exchange  ///< read and written, also by other workgroups meanwhile
};

/// A storage buffer of a kernel.
struct KernelArgument {
  std::string name;  ///< the shader writes name(i) for element i, to read and to assign
  std::string type;  ///< of GLSL: "float", "double", "int", "uint"
  Access access = Access::read;
};

/// What make_kernel() puts together.
struct KernelParts {
  std::string name;  ///< for profilers and messages
  std::array<std::uint32_t, 3> local_size = {256, 1, 1};
  std::vector<KernelArgument> arguments;
  std::vector<std::string> words;       ///< push constants, all uint: "count"
  std::vector<std::string> extensions;  ///< "GL_KHR_shader_subgroup_arithmetic"
  std::string functions;                ///< file level: shared arrays, functions
  std::string body;                     ///< of main()
};

/// A kernel's source with what the host must know of it.
///
/// Push constants are one uint `first_NAME` for each argument (elements between the start of the
/// binding and the argument's own, which name(i) adds), then `zero_bits` (a 0 that compilers do not
/// know), then the words. Besides, every shader may call linear_item() and linear_group(): number
/// of the invocation and of its workgroup among all of a launch in x and y.
struct KernelText {
  std::string name;
  std::string glsl;
  ir::Hash128 hash;  ///< of the source
  std::array<std::uint32_t, 3> local_size = {256, 1, 1};
  std::uint32_t arguments = 0, words = 0;
};

/// Declarations, then functions, then main().
///
/// Throws Error{InvalidArgument} if arguments and words do not fit the 128 bytes of push constants
/// that every device has.
KernelText make_kernel(const KernelParts& parts);

/// Words of push constants that a kernel with so many arguments may have.
constexpr std::uint32_t most_words(std::uint32_t arguments) { return 32 - 1 - arguments; }

}  // namespace topograd::ops
