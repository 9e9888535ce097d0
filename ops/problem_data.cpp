// Gives numbers to a problem without moving them.
#include "problem_data.hpp"

#include "tensor/arrays.hpp"

#include <utility>
#include <vector>

namespace topograd::ops {
namespace {

/// The device from which the numbers are taken; null: the host.
std::shared_ptr<OpBackend> device_of(const Storage& storage) {
  const std::optional<Device> placed = storage.placed();
  if (placed && storage.resident_on(placed->backend())) return placed->shared_backend();
  return storage.holder();
}

/// A private copy, which nobody writes.
std::shared_ptr<const ir::ResidentData> copy_there(OpBackend& backend, const Slice& values) {
  const std::shared_ptr<Memory> from = values.storage->read_on(backend);
  const std::shared_ptr<Memory> to = backend.allocate(values.bytes(), "problem_data");
  backend.copy(from, values.byte_offset(), to, 0, values.bytes());
  return backend.numbers(to, values.type, values.size);
}

template <class T>
std::vector<double> on_host(const Slice& values) {
  const T* const first = values.read<T>();
  return {first, first + values.size};
}

}  // namespace

void detail::set_problem_data(Problem& problem, const Data& data, const Slice& values) {
  const std::shared_ptr<OpBackend> device = device_of(*values.storage);
  if (device && !device->is_cpu()) {
    problem.set(data, copy_there(*device, values));
  } else {
    problem.set(data, values.type == Type::f64 ? on_host<double>(values) : on_host<float>(values));
  }
}

void set(Problem& problem, const Data& data, const Tensor& values) {
  if (values.type() == Type::f64) return set(problem, data, array_of<double>(values));
  set(problem, data, array_of<float>(values));
}

}  // namespace topograd::ops
