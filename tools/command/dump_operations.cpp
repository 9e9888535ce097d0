// Runs operations on a device and lists the kernels that they request.
#include "dump_operations.hpp"

#include "bench/ops/bench_ops_cases.hpp"

#include "../../ir/error.hpp"

namespace topograd::command {
namespace {

constexpr const char* kAll = "all";
constexpr std::uint64_t kSizes[] = {1'000, 100'000};  // for operations with short and long forms

void check_name(const std::string& operation) {
  if (operation == kAll) return;
  std::string there = kAll;
  for (const OpCase& one : op_cases()) {
    if (operation == one.name) return;
    there += std::string(", ") + one.name;
  }
  throw Error(ErrorCode::InvalidArgument,
              "dump: expected --operation " + there + ", got \"" + operation + "\"");
}

}  // namespace

std::vector<runtime::ListedKernel> operation_kernels(const std::string& operation,
                                                     const std::string& device) {
  check_name(operation);
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

}  // namespace topograd::command
