// Internal: type conversion of tensors.
#include "cast.hpp"

#include "../../ir/error.hpp"
#include "../backend/kernel_store.hpp"
#include "state.hpp"

#include <Eigen/Core>

#include <algorithm>

namespace topograd::ops::detail {
namespace {

template <class F>
void with_stored(Type type, F&& f) {
  if (type == Type::f64) return f(double{});
  if (type == Type::f16) return f(Eigen::half{});
  f(float{});
}

void cast_on_cpu(const View& from, Type from_type, const View& to, Type to_type, std::size_t n) {
  with_stored(from_type, [&]<class From>(From) {
    with_stored(to_type, [&]<class To>(To) {
      const From* source = host_read<From>(from);
      std::transform(source, source + n, host_write<To>(to), [](From x) {
        if constexpr (std::is_same_v<To, Eigen::half>) return To(static_cast<float>(x));
        if constexpr (std::is_same_v<From, Eigen::half>) return static_cast<To>(float(x));
        return static_cast<To>(x);
      });
    });
  });
}

/// Two elements per invocation, because they may share a word.
ComputeKernel make_cast(Type from, Type to) {
  const auto stored = [](Type type) {
    return std::string(type == Type::f16 ? "uint" : glsl_name(type));
  };
  KernelParts parts{.name = "cast_" + std::string(name(from)) + "_" + std::string(name(to))};
  parts.arguments = {{"source", stored(from), Access::read}, {"target", stored(to), Access::write}};
  parts.words = {"count", "upper"};
  const std::string wide = from == Type::f64 && to == Type::f64 ? "double" : "float";
  parts.functions = wide + " at(uint i) {\n";
  if (from == Type::f16) {
    parts.functions +=
        "  uint e = i + upper;\n"
        "  vec2 pair = unpackHalf2x16(source(e >> 1u));\n"
        "  return (e & 1u) == 0u ? pair.x : pair.y;\n";
  } else {
    parts.functions += "  return " + wide + "(source(i));\n";
  }
  parts.functions += "}\n";
  parts.body =
      "  uint stride = gl_NumWorkGroups.x * 256u;\n"
      "  for (uint pair = gl_GlobalInvocationID.x; 2u * pair < count; pair += stride) {\n"
      "    uint i = 2u * pair;\n"
      "    bool two = i + 1u < count;\n";
  parts.body += to == Type::f16
                    ? "    target(pair) = packHalf2x16(vec2(at(i), two ? at(i + 1u) : 0.0));\n"
                    : "    target(i) = " + std::string(glsl_name(to)) +
                          "(at(i));\n    if (two) target(i + 1u) = " + std::string(glsl_name(to)) +
                          "(at(i + 1u));\n";
  parts.body += "  }\n";
  return make_kernel(parts);
}

const ComputeKernel& cast_kernel(Type from, Type to) {
  const std::string key = "cast" + std::string(name(from)) + std::string(name(to));
  return kernel_for(key, [&] { return make_cast(from, to); });
}

}  // namespace

Tensor cast(const Tensor& from, Type type) {
  const TensorState& own = state_of("to", from);
  if (!is_floating(type)) {
    throw Error(ErrorCode::InvalidArgument,
                "to: expected f32, f64 or f16, got " + std::string(name(type)));
  }
  if (own.type == type) return from;
  const View data = contiguous_data(from);
  const auto count = static_cast<std::uint64_t>(from.count());
  Tensor out = make_tensor(own.shape, type, own.device);
  const View to = out.state()->data;
  const auto on_device = [&](OpBackend& backend) {
    const Argument arguments[] = {argument(backend, data, count, own.type, Access::read),
                                  argument(backend, to, count, type, Access::write)};
    const std::uint32_t words[] = {
        static_cast<std::uint32_t>(count),
        static_cast<std::uint32_t>(own.type == Type::f16 ? data.offset & 1 : 0)};
    const std::uint64_t groups = ((count + 1) / 2 + 255) / 256;
    backend.launch({.kernel = &cast_kernel(own.type, type),
                    .arguments = arguments,
                    .words = words,
                    .groups = {static_cast<std::uint32_t>(std::min<std::uint64_t>(
                        groups, std::min(backend.limits().groups, 1u << 16)))}});
  };
  const bool wide = own.type == Type::f64 || type == Type::f64;
  if (count > 0) {
    run_op({.op = Operation::Map,
            .kernel = key_of("cast", own.type, type),
            .size = count,
            .work = {.operations = count,
                     .bytes_read = count * size_of(own.type),
                     .bytes_written = count * size_of(type)},
            .inputs = {data.storage},
            .outputs = {to.storage},
            .on_cpu = [&] { cast_on_cpu(data, own.type, to, type, count); },
            .on_device = on_device,
            .needs_float64 = wide},
           own.device);
  }
  record(out, {&from, 1}, [back = own.type](const Tensor& g) {
    return std::vector{g.to(back == Type::f16 ? Type::f32 : back)};
  });
  return out;
}

}  // namespace topograd::ops::detail
