// Hand-written compute kernels: GLSL bodies, and the declarations around them.
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
  exchange  ///< read and written, concurrently by several workgroups
};

/// A storage buffer of a kernel.
struct KernelArgument {
  std::string name;  ///< the shader reads and assigns element i as name(i)
  std::string type;  ///< in GLSL: "float", "double", "int", "uint"
  Access access = Access::read;
};

/// The input of make_kernel().
struct KernelParts {
  std::string name;  ///< for profilers and messages
  std::array<std::uint32_t, 3> local_size = {256, 1, 1};
  std::vector<KernelArgument> arguments;
  std::vector<std::string> words;       ///< push constants, all uint: "count"
  std::vector<std::string> extensions;  ///< "GL_KHR_shader_subgroup_arithmetic"
  std::string functions;                ///< at file level: shared arrays, functions
  std::string body;                     ///< of main()
};

/// A kernel's source and its interface for the host.
///
/// Push constants are one uint `first_NAME` per argument (the number of elements between the start
/// of the binding and the argument, which name(i) adds), then `zero_bits` (a 0 unknown to
/// compilers), then the words. Every shader may also call linear_item() and linear_group(): the
/// number of the invocation and of its workgroup within a launch in x and y.
struct ComputeKernel {
  std::string name;
  std::string glsl;
  ir::Hash128 hash;  ///< of the source
  std::array<std::uint32_t, 3> local_size = {256, 1, 1};
  std::uint32_t arguments = 0, words = 0;
};

/// A number as one of a kernel's words.
template <class T>
constexpr std::uint32_t word(T value) {
  return static_cast<std::uint32_t>(value);
}

/// Concatenates declarations, functions and main().
///
/// Throws Error{InvalidArgument} if arguments and words do not fit the 128 bytes of push constants
/// that every device has.
ComputeKernel make_kernel(const KernelParts& parts);

/// Words of push constants available to a kernel with that many arguments.
constexpr std::uint32_t most_words(std::uint32_t arguments) { return 32 - 1 - arguments; }

/// A number as two words of push constants, NAME_low and NAME_high; an f32 uses only the first.
std::array<std::uint32_t, 2> number_words(double number, bool wide);
/// Source that reads the number in a shader.
std::string number_source(std::string_view name, bool wide);

}  // namespace topograd::ops
