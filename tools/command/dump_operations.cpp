// Runs operations on a device and lists the kernels that they request.
#include "dump_operations.hpp"

#include "bench/ops/bench_ops_cases.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../../ops/backend/backend.hpp"
#include "../../ops/tensor/with_options.hpp"
#include "../../solver/interrupts.hpp"

#include <chrono>
#include <sstream>

namespace topograd::command {
namespace {

constexpr const char* kAll = "all";
constexpr std::uint64_t kShownSize = 64;
constexpr std::uint64_t kSizes[] = {1'000, 100'000};  // for operations with short and long forms

void check_name(const char* call, const std::string& operation) {
  if (operation == kAll) return;
  std::string there = kAll;
  for (const OpCase& one : op_cases()) {
    if (operation == one.name) return;
    there += std::string(", ") + one.name;
  }
  throw Error(ErrorCode::InvalidArgument, std::string(call) + ": expected --operation " + there +
                                              ", got \"" + operation + "\"");
}

}  // namespace

std::vector<runtime::ListedKernel> operation_kernels(const std::string& operation,
                                                     const std::string& device) {
  check_name("dump", operation);
  const ops::Device opened = ops::Device::vulkan(device);
  const runtime::ListKernels listing;
  for (const std::uint64_t size : kSizes) {
    const OpInputs inputs = make_op_inputs(size, opened);
    for (const OpCase& one : op_cases()) {
      if (operation == kAll || operation == one.name) one.prepare(inputs)()();
    }
  }
  return listing.kernels();
}

std::string operation_values(const std::string& operation, const ops::Device& device) {
  check_name("dump", operation);
  const OpInputs inputs = make_op_inputs(kShownSize, device);
  std::ostringstream out;
  for (const OpCase& one : op_cases()) {
    if (operation != kAll && operation != one.name) continue;
    out << (out.tellp() > 0 ? "\n" : "") << "// " << one.name << "\n";
    ops::with_options({.device = device, .values = &out}, [&] { one.prepare(inputs)()(); });
  }
  return out.str();
}

std::vector<WarmOperation> warm_up_operations(const std::string& operation,
                                              const ops::Device& device) {
  check_name("warm-up", operation);
  if (device.is_cpu()) return {};
  std::vector<OpInputs> inputs;
  for (const std::uint64_t size : kSizes) inputs.push_back(make_op_inputs(size, device));
  std::vector<WarmOperation> out;
  for (const OpCase& one : op_cases()) {
    if (operation != kAll && operation != one.name) continue;
    if (Interrupts::came()) break;
    const auto start = std::chrono::steady_clock::now();
    const ops::BackendCounters before = device.backend().counters();
    WarmOperation& row = out.emplace_back(WarmOperation{.operation = one.name, .problem = {}});
    try {
      for (const OpInputs& in : inputs) one.prepare(in)()();
    } catch (const Error& error) {
      if (operation != kAll || error.code() != ErrorCode::Unsupported) throw;
      row.problem = error.what();
    }
    const ops::BackendCounters made = device.backend().counters() - before;
    row.from_disk = made.from_disk;
    row.compiled = made.compiled - made.from_disk;
    row.seconds = seconds_since(start);
  }
  return out;
}

}  // namespace topograd::command
