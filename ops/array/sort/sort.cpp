// Sorting by keys with the integer order of the elements, with TBB or by radix.
#include "sort.hpp"

#include "../../../ir/machine/parallel.hpp"
#include "../../backend/kernel_store.hpp"
#include "device_sort.hpp"

#include <bit>
#include <cmath>

namespace topograd::ops {
namespace {

template <class T>
using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// A key whose integer order is the order of the elements; NaN last.
template <class T>
Key<T> encode(T x) {
  using K = Key<T>;
  constexpr K kSign = K{1} << (8 * sizeof(K) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(x)) return ~K{0};
    const K bits = std::bit_cast<K>(x);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<K>(x) ^ kSign;
  } else {
    return x;
  }
}
template <class T>
T decode(Key<T> key) {
  using K = Key<T>;
  constexpr K kSign = K{1} << (8 * sizeof(K) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    return std::bit_cast<T>((key & kSign) != 0 ? key & ~kSign : ~key);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(key ^ kSign);
  } else {
    return key;
  }
}

template <class T>
std::vector<Key<T>> keys_of(const Slice& x) {
  const T* from = x.read<T>();
  std::vector<Key<T>> keys(x.size);
  ir::parallel_for(std::size_t{0}, keys.size(), [&](std::size_t i) { keys[i] = encode(from[i]); });
  return keys;
}

template <class T>
void sort_on_cpu(const Slice& x, const Slice& output) {
  std::vector<Key<T>> keys = keys_of<T>(x);
  ir::parallel_sort(keys.begin(), keys.end());
  T* to = output.write<T>();
  ir::parallel_for(std::size_t{0}, keys.size(), [&](std::size_t i) { to[i] = decode<T>(keys[i]); });
}

template <class T>
void argsort_on_cpu(const Slice& x, const Slice& output) {
  const std::vector<Key<T>> keys = keys_of<T>(x);
  std::uint32_t* to = output.write<std::uint32_t>();
  for (std::uint32_t i = 0; i < keys.size(); ++i) to[i] = i;
  ir::parallel_sort(to, to + keys.size(), [&](std::uint32_t a, std::uint32_t b) {
    return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
  });
}

void check_device(const OpBackend& backend, const char* call, const Slice& x) {
  const std::string why = radix_refusal(backend, x.size);
  if (why.empty()) return;
  throw Error(ErrorCode::Unsupported, std::string(call) + " of " + std::to_string(x.size) +
                                          " elements on \"" + backend.facts().name + "\": " + why);
}

/// Indices of sorted f64 elements: sorts by the low words, then stably by the high words.
void argsort_wide(OpBackend& backend, const Slice& x, const Slice& output) {
  const Slice low = make_slice(Type::u32, x.size, "keys"), high = make_slice(Type::u32, x.size);
  const Slice order = make_slice(Type::u32, x.size, "places");
  encode_words(backend, x, low, false);
  radix_sort(backend, {.keys = low, .to_values = order});
  encode_words(backend, x, high, true);
  gather_on(backend, high, order, low);
  radix_sort(backend, {.keys = low, .values = order, .to_values = output});
}

void argsort_on_device(OpBackend& backend, const Slice& x, const Slice& output) {
  if (x.type == Type::f64) return argsort_wide(backend, x, output);
  radix_sort(backend, {.keys = x, .to_values = output});
}

OpCall call_for(const char* what, const Slice& x, const Slice& output) {
  // Number of comparisons per element.
  const double rounds = std::max(1.0, std::log2(static_cast<double>(x.size)));
  return {.op = Operation::Sort,
          .kernel = key_of(what, x.type),
          .size = x.size,
          .work = {.operations = rounds * static_cast<double>(x.size),
                   .bytes_read = x.bytes(),
                   .bytes_written = output.bytes(),
                   .reads = rounds * static_cast<double>(x.bytes()),
                   .steps = rounds,
                   .pattern = runtime::hybrid::MemoryPattern::scatter},
          .inputs = {x.storage},
          .outputs = {output.storage}};
}

}  // namespace

ExecutionStats sort_into(const Slice& x, const Slice& output, const OpOptions& options) {
  expect_size("sort", x.size, output.size);
  expect_type("sort", "results", x.type, output.type);
  OpCall call = call_for("sort", x, output);
  call.on_cpu = [&] {
    with_type(x.type, [&](auto element) { sort_on_cpu<decltype(element)>(x, output); });
  };
  call.on_device = [&](OpBackend& backend) {
    if (fits_bitonic(x)) return bitonic_sort(backend, x, output, false);
    check_device(backend, "sort", x);
    if (x.size == 0) return;
    if (x.type != Type::f64) return radix_sort(backend, {.keys = x, .to_keys = output});
    const Slice order = make_slice(Type::u32, x.size, "places");
    argsort_wide(backend, x, order);
    if (!overlap(x, output)) return gather_on(backend, x, order, output);
    const Slice sorted = make_slice(x.type, x.size);
    gather_on(backend, x, order, sorted);
    const Argument from = sorted.reads(backend), to = output.writes(backend);
    backend.copy(from.memory, from.offset, to.memory, to.offset, x.bytes());
  };
  return run(call, options);
}

ExecutionStats argsort_into(const Slice& x, const Slice& output, const OpOptions& options) {
  expect_size("argsort", x.size, output.size);
  expect_type("argsort", "results", Type::u32, output.type);
  OpCall call = call_for("argsort", x, output);
  call.on_cpu = [&] {
    with_type(x.type, [&](auto element) { argsort_on_cpu<decltype(element)>(x, output); });
  };
  call.on_device = [&](OpBackend& backend) {
    if (fits_bitonic(x)) return bitonic_sort(backend, x, output, true);
    check_device(backend, "argsort", x);
    if (x.size > 0) argsort_on_device(backend, x, output);
  };
  return run(call, options);
}

}  // namespace topograd::ops
