// Runs generated kernels on a device with buffers bound by role.
#include "kernel_runner.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace topograd::test {

using codegen::BufferRole;
using codegen::Precision;
using namespace runtime::vulkan;  // the tested namespace

KernelRunner::KernelRunner(std::shared_ptr<Device> device)
    : device_(std::move(device)), cache_(kernel_cache(device_)) {}

void KernelRunner::set(BufferRole role, Precision precision, std::span<const double> values) {
  std::vector<double> filled(values.begin(), values.end());
  if (filled.empty()) filled.push_back(0);
  if (precision == Precision::f64) {
    buffers_[role] = std::make_shared<Buffer>(device_->buffer(filled.size() * 8));
    device_->upload<double>(*buffers_[role], filled);
  } else {
    std::vector<float> narrow;
    for (const double value : filled) narrow.push_back(static_cast<float>(value));
    buffers_[role] = std::make_shared<Buffer>(device_->buffer(narrow.size() * 4));
    device_->upload<float>(*buffers_[role], narrow);
  }
}

void KernelRunner::set(BufferRole role, std::span<const std::uint32_t> values) {
  std::vector<std::uint32_t> filled(values.begin(), values.end());
  if (filled.empty()) filled.push_back(0);
  buffers_[role] = std::make_shared<Buffer>(device_->buffer(filled.size() * 4));
  device_->upload<std::uint32_t>(*buffers_[role], filled);
}

void KernelRunner::set_alias(BufferRole alias, BufferRole role) {
  buffers_[alias] = buffers_.at(role);
}

void KernelRunner::swap(BufferRole a, BufferRole b) { std::swap(buffers_.at(a), buffers_.at(b)); }

std::vector<double> KernelRunner::numbers(BufferRole role, Precision precision) {
  const Buffer& buffer = *buffers_.at(role);
  if (precision == Precision::f64) {
    std::vector<double> out(buffer.size() / 8);
    device_->download<double>(buffer, out);
    return out;
  }
  std::vector<float> narrow(buffer.size() / 4);
  device_->download<float>(buffer, narrow);
  return {narrow.begin(), narrow.end()};
}

std::vector<std::uint32_t> KernelRunner::words(BufferRole role) {
  const Buffer& buffer = *buffers_.at(role);
  std::vector<std::uint32_t> out(buffer.size() / 4);
  device_->download<std::uint32_t>(buffer, out);
  return out;
}

void KernelRunner::run(const codegen::KernelSource& source, const codegen::PushConstants& push,
                       std::uint32_t groups) {
  const std::size_t plain = source.push_constants.size() - source.forms.size();
  const std::span<const std::byte> first = push_bytes(push).first(4 * plain);
  std::vector<std::byte> words(first.begin(), first.end());
  for (const codegen::ColumnForm& form : source.forms) {
    const auto bytes = std::as_bytes(std::span(&forms_.at(form), 1));
    words.insert(words.end(), bytes.begin(), bytes.end());
  }
  dispatch(source, words, groups);
}

void KernelRunner::run_vector(const codegen::VectorKernelRequest& request,
                              const codegen::VectorConstants& push, std::uint32_t groups) {
  const std::vector<std::uint32_t> words = codegen::push_words(request.op, push);
  dispatch(codegen::generate(request), std::as_bytes(std::span(words)), groups);
}

void KernelRunner::run_projection(const codegen::KernelSource& source,
                                  const codegen::ProjectionConstants& push, std::uint32_t groups) {
  dispatch(source, push_bytes(push).first(4 * source.push_constants.size()), groups);
}

void KernelRunner::dispatch(const codegen::KernelSource& source, std::span<const std::byte> push,
                            std::uint32_t groups) {
  const Kernel kernel = cache_->kernel(source, compiled_).kernel;
  std::vector<Binding> bindings;
  for (const codegen::BindingInfo& binding : source.bindings) {
    bindings.push_back({.buffer = buffers_.at(binding.role).get()});
  }
  CommandList list = device_->command_list(source.name);
  list.dispatch(kernel, bindings, push, groups);
  device_->submit(list).wait();
}

bool KernelDeviceTest::keeps_specials(Precision precision) const {
  const Features& f = device_->features();
  return precision == Precision::f32 ? f.signed_zero_inf_nan_preserve_f32 && f.denorm_preserve_f32
                                     : f.signed_zero_inf_nan_preserve_f64 && f.denorm_preserve_f64;
}

codegen::KernelRequest KernelDeviceTest::with_controls(codegen::KernelRequest request) const {
  request.float_controls_f32 = keeps_specials(Precision::f32);
  request.float_controls_f64 = keeps_specials(Precision::f64);
  return request;
}

bool KernelDeviceTest::rounds_correctly(Precision precision) const {
  return precision == Precision::f64 || device_->info().software();
}

std::uint32_t groups_of(std::uint32_t count, std::uint32_t workgroup_size) {
  return std::max((count + workgroup_size - 1) / workgroup_size, 1u);
}

std::vector<double> rounded(std::vector<double> values, Precision precision) {
  if (precision == Precision::f32) {
    for (double& value : values) value = static_cast<double>(static_cast<float>(value));
  }
  return values;
}

namespace {

// Numbers of a precision as integers in order, one step per unit in the last place; -0 is before
// +0.
template <class Int, class Float>
double place(Float value) {
  const auto bits = std::bit_cast<Int>(value);
  return bits < 0 ? -1.0 - static_cast<double>(bits & std::numeric_limits<Int>::max())
                  : static_cast<double>(bits);
}

}  // namespace

double ulps(double a, double b, Precision precision) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) == std::isnan(b) ? 0 : std::numeric_limits<double>::infinity();
  }
  if (std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b)) return 0;
  if (precision == Precision::f32) {
    return std::fabs(place<std::int32_t>(static_cast<float>(a)) -
                     place<std::int32_t>(static_cast<float>(b)));
  }
  // Places of doubles do not fit a double: neighbours are told apart by their difference.
  const auto ia = std::bit_cast<std::int64_t>(a), ib = std::bit_cast<std::int64_t>(b);
  if ((ia < 0) == (ib < 0)) return std::fabs(static_cast<double>(ia - ib));
  return std::fabs(place<std::int64_t>(a) - place<std::int64_t>(b));
}

}  // namespace topograd::test
