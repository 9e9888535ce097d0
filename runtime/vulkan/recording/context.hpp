// Context of all parts of a Vulkan engine: launching of kernels, options and choices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../../codegen/kernel.hpp"
#include "../../../codegen/kernels/projection.hpp"
#include "../../../codegen/vector/kernels.hpp"
#include "../../device/driver/features.hpp"
#include "../../device/kernels/launch.hpp"
#include "../../engine/engine.hpp"

namespace topograd::runtime::vulkan {

/// A strategy and why it is used. Where the device lacks what the row of a strategy needs
/// (codegen/accumulations.def), gather_recompute takes its place.
struct AccumulationChoice {
  codegen::Accumulation accumulation = codegen::Accumulation::gather_recompute;
  std::string why;  ///< "" as asked for, else what was missing
};

/// The strategy that serves for `wanted` on a device with `features`.
AccumulationChoice choose_accumulation(std::optional<codegen::Accumulation> wanted,
                                       codegen::Precision precision, const Features& features);

/// Which kernels of terms serve.
enum class Code {
  general,  ///< right for any numbers
  make,     ///< while kernels are declared: those with shared numbers in their text, made where
            ///< they are not there
  serve     ///< use kernels that were made, and general ones in place of missing ones
};

struct Context : LaunchContext {
  EngineOptions options;
  AccumulationChoice accumulation;
  /// For cg_init and cg_update: every workgroup of the next product reads all of their partial
  /// sums, so these are few and large.
  std::uint32_t update_workgroup_size = 128;
  /// Workgroup size of kernels that share work items of so many entries, on average.
  std::uint32_t item_workgroup_size(std::uint64_t entries) const;
  /// Columns that need not be stored are not. A device that waits for memory gains by it, the
  /// software device loses: there a load at an index that is not known to move with the invocation
  /// costs more than the memory that it spares.
  bool flexible_columns = true;
  /// Numbers that all instances of a term share become code, of so many of them.
  std::uint64_t numbers_in_code_from = 0;
  Code code = Code::general;
  double plan_seconds = 0;
  std::uint64_t term_dispatches = 0;  ///< dispatches of residual kernels recorded so far
  /// The model is a part of another one: sums by unknown keep an order that does not depend on the
  /// division.
  bool is_part() const { return options.part != nullptr; }
  /// Workgroups of cg_init and cg_update over `count` blocks.
  std::uint32_t update_grid(std::uint64_t count) const;
};

/// Opens the device that the options name and chooses the strategy and the size of workgroups
/// there.
///
/// Throws Error{NoLoader, NoDriver, NoDevice} if there is none, Error{Unsupported} if the device
/// lacks float64 for f64.
Context open_context(const EngineOptions& options);
/// The same on a device that is open; what the options say of devices is not read.
Context make_context(const std::shared_ptr<Device>& opened, const EngineOptions& options);

/// Test hook: engines that are opened from now on have flexible columns, also on a software device;
/// or have none.
void set_flexible_columns(std::optional<bool> wanted);

/// Test hook: numbers of engines that are opened from now on become code, or don't.
void set_numbers_in_code(std::optional<bool> wanted);

/// Fills in what the device and the engine decide, and begins to generate, compile and load.
LoadedKernel load_kernel(Context& context, codegen::VectorKernelRequest request);
LoadedKernel load_kernel(Context& context, codegen::ProjectionRequest request);

/// Numbers that all instances of a term share and that may be code, by data slot.
using SharedNumbers = std::vector<std::optional<double>>;

/// A kernel of a term, and the same one with the numbers in its text that its instances share.
struct TermKernel {
  LoadedKernel general, coded;
};
/// The one that serves, for a dispatch of the list; a list that declares begins it where it is not
/// there.
///
/// Throws Error{Internal} if it was not declared.
const LoadedKernel& serving_kernel(Context& context, const CommandList& list, TermKernel& kernel,
                                   const SharedNumbers& numbers,
                                   const std::function<codegen::KernelRequest()>& request);
/// A null buffer, where a list that declares asks for one that is made when it is first recorded.
const Buffer& no_buffer();

}  // namespace topograd::runtime::vulkan
