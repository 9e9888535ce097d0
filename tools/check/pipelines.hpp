// Self-test of a device's compiler: pipelines of a catalogue of kernels, of which none runs.
#pragma once

#include "../../codegen/precision.hpp"
#include "../../runtime/kernel_listing.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd::check {

using codegen::Float64;
using codegen::Precision;

/// A kernel of the catalogue.
struct CatalogueKernel {
  std::string group;  ///< for tables: "springs gradient", "op sin", "solver"
  std::string name;
  std::string glsl;
  Precision precision = Precision::f64;
  Float64 float64 = Float64::native;  ///< of f64: whose
};

struct CompiledKernel {
  std::string group, name;
  Precision precision = Precision::f64;
  Float64 float64 = Float64::native;
  std::uint64_t words = 0;  ///< of SPIR-V, before doubles are replaced
  bool skipped = false;     ///< it has more than the options allow
  std::string problem;      ///< of the compiler or the driver; empty: it compiled
  double pipeline_ms = 0;   ///< of the driver
  std::vector<runtime::KernelFigures::Figure> figures;  ///< under the driver's names

  /// The sum of the figures whose name has one of these parts; 0 if the driver has none.
  double sum_of(std::span<const char* const> parts) const;
  double registers() const;     ///< vector registers of an invocation
  double spills() const;        ///< registers that are kept in memory
  double shared_bytes() const;  ///< of a workgroup
  double code_bytes() const;
};

struct CompileOptions {
  std::string device;  ///< index or name
  /// Kernels with more words of SPIR-V are skipped; emulated ones, whose operations are calls, with
  /// more than `most_emulated`.
  std::uint64_t most_words = 200'000, most_emulated = 20'000;
};

struct CompileReport {
  std::string device, driver;
  bool native_float64 = false;
  std::vector<CompiledKernel> kernels;
  std::uint64_t failures = 0, skipped = 0;
};

/// The solver's vector kernels in each combination of precisions and usual widths of blocks, and
/// every op as a residual with its gradient: f32, native and emulated f64.
std::vector<CatalogueKernel> kernel_catalogue();

/// Makes a pipeline of each kernel. Allocates no memory on the device and dispatches nothing, so it
/// also runs on drivers without hardware. Native f64 is left out on a device without it.
///
/// Throws what opening a device throws, and Error{Unsupported} in a build without Vulkan.
CompileReport check_compile(std::span<const CatalogueKernel> catalogue,
                            const CompileOptions& options);

}  // namespace topograd::check
