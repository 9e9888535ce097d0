// Requests for vector kernels, checked, and the shaders that are put together from them.
#include "kernels.hpp"

#include "../../ir/error.hpp"
#include "source.hpp"

#include <bit>

namespace topograd::codegen {
namespace {

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
  const Width width = row(request.op).width;
  if (width == Width::lanes &&
      (!std::has_single_bit(request.width) || request.width > request.workgroup_size)) {
    refuse(request, text("expected a width that is a power of two up to ", request.workgroup_size,
                         ", got ", request.width));
  }
  if (request.width == 0 || (width == Width::block && request.width > kMaxBlockWidth)) {
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

const KernelRow& row(VectorOp op) {
  using enum Scalar;
#define TG_BUFFER(name, numbers, access, role) \
  {#name, Numbers::numbers, Access::access, BufferRole::role},
#define TG_READ(name, role) TG_BUFFER(name, vectors, read, role)
#define TG_WRITE(name, role) TG_BUFFER(name, vectors, write, role)
#define TG_UPDATE(name, role) TG_BUFFER(name, vectors, read_write, role)
#define TG_READ_SUMS(name, role) TG_BUFFER(name, sums, read, role)
#define TG_WRITE_SUMS(name, role) TG_BUFFER(name, sums, write, role)
#define TG_READ_WORDS(name, role) TG_BUFFER(name, words, read, role)
#define TG_WRITE_WORDS(name, role) TG_BUFFER(name, words, write, role)
#define TG_SCALARS(access, ...) \
  {"scalars", Numbers::sums, Access::access, BufferRole::scalars, {__VA_ARGS__}},
#define TG_DECISION(access, ...) \
  {"decision", Numbers::sums, Access::access, BufferRole::decision, {__VA_ARGS__}},
#define TG_PUSH(name, word) {#name, &VectorConstants::word},
#define TG_SCALAR_INDEX(name, word) TG_PUSH(name, word)
#define TG_KERNEL(kernel, buffer_rows, push_rows, ...) \
  {.name = #kernel, .buffers = {buffer_rows}, .push = {push_rows}, __VA_ARGS__},
  static const auto& rows = *new std::vector<KernelRow>{
#include "kernels.def"
#undef TG_BUFFER
#undef TG_READ
#undef TG_WRITE
#undef TG_UPDATE
#undef TG_READ_SUMS
#undef TG_WRITE_SUMS
#undef TG_READ_WORDS
#undef TG_WRITE_WORDS
#undef TG_SCALARS
#undef TG_DECISION
#undef TG_PUSH
#undef TG_SCALAR_INDEX
#undef TG_KERNEL
  };
  return rows.at(static_cast<std::size_t>(op));
}

std::string_view name(VectorOp op) { return row(op).name; }

std::string_view name(Scalar scalar) {
  constexpr std::string_view kNames[] = {
#define TG_SCALAR(name) #name,
#include "scalars.def"
#undef TG_SCALAR
  };
  return kNames[slot(scalar)];
}

std::vector<std::uint32_t> push_words(VectorOp op, const VectorConstants& constants) {
  std::vector<std::uint32_t> out;
  for (const PushRow& push : row(op).push) out.push_back(constants.*push.word);
  return out;
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
  VectorSource(request, shader).write();
  std::vector<PushMember> push;
  for (const PushRow& one : row(request.op).push) push.push_back({one.name, {}});
  const std::string name = shader_name(request);
  return shader.finish(
      {.name = name,
       .header = {text(name, ": vectors ", codegen::name(request.vectors), ", scalars ",
                       codegen::name(request.scalars), ", blocks of ", request.width)},
       .workgroup_size = request.workgroup_size,
       .push_constants = push,
       .float_controls_f32 = request.float_controls_f32,
       .float_controls_f64 = request.float_controls_f64});
}

}  // namespace topograd::codegen
