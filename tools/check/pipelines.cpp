// Makes pipelines of a catalogue, and reads the driver's figures.
#include "pipelines.hpp"

#include "../../api/check_backends.hpp"
#include "../../api/source.hpp"
#include "../../codegen/spirv/reflect.hpp"
#include "../../codegen/spirv/shader_compiler.hpp"
#include "../../codegen/vector/source.hpp"
#include "../../ir/checking/random_program.hpp"
#include "../../ir/error.hpp"
#include "../../runtime/device/device.hpp"
#include "../../runtime/device/kernels/kernel_cache.hpp"
#include "../../solver/interrupts.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

namespace topograd::check {
namespace {

namespace vk = runtime::vulkan;

constexpr std::uint32_t kBlockWidths[] = {1, 2, 3, 6};

/// Whose f64 a kernel is made with: f32 kernels have none.
std::vector<Float64> kinds_of(Precision precision) {
  if (precision == Precision::f32) return {Float64::native};
  return {Float64::native, Float64::emulated};
}

/// Many kernels do not depend on the width: then the one before is the same.
void add_vector_kernel(const codegen::VectorKernelRequest& request,
                       std::vector<CatalogueKernel>& out) {
  const codegen::KernelSource source = codegen::generate(request);
  if (!out.empty() && out.back().name == source.name) return;
  const Precision precision = source.needs_float64 ? Precision::f64 : Precision::f32;
  for (const Float64 float64 : kinds_of(precision))
    out.push_back({"solver", source.name, source.glsl, precision, float64});
}

void add_vector_kernels(std::vector<CatalogueKernel>& out) {
  constexpr std::pair<Precision, Precision> kPrecisions[] = {{Precision::f32, Precision::f32},
                                                             {Precision::f32, Precision::f64},
                                                             {Precision::f64, Precision::f64}};
  for (std::uint32_t k = 0; k < codegen::kVectorOpCount; ++k) {
    const auto op = static_cast<codegen::VectorOp>(k);
    const codegen::KernelRow& row = codegen::row(op);
    const std::uint32_t size =
        row.groups == codegen::GroupCount::tiles ? codegen::kTileInvocations : 128;
    for (const auto& [vectors, scalars] : kPrecisions) {
      for (const std::uint32_t width : kBlockWidths) {
        if (row.width == codegen::Width::lanes && width > 2) continue;
        add_vector_kernel({.op = op,
                           .vectors = vectors,
                           .scalars = scalars,
                           .workgroup_size = size,
                           .width = width},
                          out);
      }
    }
  }
}

void add_ops(std::vector<CatalogueKernel>& out) {
  for (const ir::Op op : ir::all_ops()) {
    for (const Precision precision : {Precision::f32, Precision::f64}) {
      for (const char* kernel : {"residual", "gradient"}) {
        for (const NamedSource& source :
             sources(single_op(op), {}, {.kernel = kernel, .precision = precision})) {
          for (const Float64 float64 : kinds_of(precision))
            out.push_back({"op " + std::string(ir::info(op).name), source.name, source.text,
                           precision, float64});
        }
      }
    }
  }
}

void make_pipeline(const CatalogueKernel& kernel, vk::Device& device, const CompileOptions& options,
                   CompiledKernel& made) {
  const std::vector<std::uint32_t> words =
      vk::compile_shader({.name = kernel.name,
                          .glsl = kernel.glsl,
                          .key = {},
                          .controls = vk::float_controls(device.features())});
  made.words = words.size();
  const bool emulated = kernel.float64 == Float64::emulated;
  made.skipped = words.size() > (emulated ? options.most_emulated : options.most_words);
  if (made.skipped) return;
  const codegen::ModuleLayout layout = codegen::reflect(words);
  const vk::Kernel pipeline =
      device.kernel({.spirv = words,
                     .name = kernel.name,
                     .storage_buffers = static_cast<std::uint32_t>(layout.bindings.size()),
                     .push_constant_bytes = layout.push_constant_size,
                     .constants = {},
                     .local_size = layout.workgroup_size});
  made.pipeline_ms = pipeline.creation_ms();
  made.figures = pipeline.figures().figures;
}

}  // namespace

std::vector<CatalogueKernel> kernel_catalogue() {
  std::vector<CatalogueKernel> out;
  add_vector_kernels(out);
  add_ops(out);
  return out;
}

CompileReport check_compile(std::span<const CatalogueKernel> catalogue,
                            const CompileOptions& options) {
  const std::shared_ptr<vk::Device> native = vk::open({.device = options.device});
  const std::shared_ptr<vk::Device> emulating =
      vk::open({.device = options.device, .float64 = Float64::emulated});
  CompileReport report{.device = native->info().name,
                       .driver = native->info().driver + " " + native->info().driver_version,
                       .native_float64 = native->features().float64,
                       .kernels = {}};
  for (const CatalogueKernel& kernel : catalogue) {
    if (Interrupts::came()) break;
    const bool emulated = kernel.float64 == Float64::emulated;
    if (kernel.precision == Precision::f64 && !emulated && !report.native_float64) continue;
    CompiledKernel& made = report.kernels.emplace_back(CompiledKernel{.group = kernel.group,
                                                                      .name = kernel.name,
                                                                      .precision = kernel.precision,
                                                                      .float64 = kernel.float64,
                                                                      .problem = {},
                                                                      .figures = {}});
    try {
      make_pipeline(kernel, emulated ? *emulating : *native, options, made);
    } catch (const Error& error) {
      made.problem = error.what();
    }
    report.failures += made.problem.empty() ? 0 : 1;
    report.skipped += made.skipped ? 1 : 0;
  }
  return report;
}

double CompiledKernel::sum_of(std::span<const char* const> parts) const {
  double sum = 0;
  for (const auto& figure : figures) {
    const bool named = std::ranges::any_of(
        parts, [&](const char* part) { return figure.name.find(part) != std::string::npos; });
    // NVIDIA's driver 580 has the local memory in the low 32 bits, and 16 in the high ones.
    if (named) sum += std::fmod(figure.value, 4294967296.0);
  }
  return sum;
}

namespace {

// Names of AMD's and NVIDIA's drivers.
constexpr const char* kSpills[] = {"pilled", "Local Memory Size"};
constexpr const char* kShared[] = {"LDS size", "Shared Memory Size"};
constexpr const char* kCode[] = {"Code size", "Binary Size"};

}  // namespace

double CompiledKernel::registers() const {
  for (const auto& figure : figures)
    if (figure.name == "VGPRs" || figure.name == "Register Count") return figure.value;
  return 0;
}
double CompiledKernel::spills() const { return sum_of(kSpills); }
double CompiledKernel::shared_bytes() const { return sum_of(kShared); }
double CompiledKernel::code_bytes() const { return sum_of(kCode); }

}  // namespace topograd::check
