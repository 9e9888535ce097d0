// Internal: Fourier transforms on devices: passes for products of 2, 3, 5 and 7, Bluestein's
// algorithm for other lengths.
#include "../../../ir/error.hpp"
#include "../../backend/kernel_store.hpp"
#include "fft_run.hpp"
#include "fft_source.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <tuple>

namespace topograd::ops::detail {
namespace {

using Numbers = std::vector<std::complex<double>>;

// Lengths up to this without passes use the definition.
constexpr std::uint64_t kShort = 64;
constexpr std::uint64_t kFineRoots = 1024;  // as read by fft_pass_kernel()
// Longest transforms of a workgroup: of a contiguous row, of strided numbers, and the number of
// adjacent ones (of the longest).
constexpr std::uint64_t kLongestRow = 4096;
constexpr std::uint32_t kLongestPass = 256, kNeighbours = 16, kFewNeighbours = 8;
// With 32 numbers per invocation, if there are enough numbers for large workgroups to fill a
// device.
constexpr std::uint32_t kLongestWidePass = 1024;
constexpr std::uint64_t kManyNumbers = std::uint64_t{1} << 25;

/// e^(-2πi k/n), computed in the octant where the functions are most accurate.
std::complex<double> root(std::uint64_t k, std::uint64_t n) {
  const std::uint64_t eighth = 8 * (k % n) / n;
  const double full = 2 * std::numbers::pi / static_cast<double>(n);
  const double angle = full * (static_cast<double>(k % n) -
                               static_cast<double>(n) * static_cast<double>(eighth) / 8);
  // The remaining angle is in [0, π/4); multiples of π/4 are known.
  static constexpr double kHalf = 0.70710678118654752440;
  static constexpr double kCos[] = {1, kHalf, 0, -kHalf, -1, -kHalf, 0, kHalf};
  static constexpr double kSin[] = {0, -kHalf, -1, -kHalf, 0, kHalf, 1, kHalf};
  return std::complex<double>(kCos[eighth], kSin[eighth]) *
         std::complex<double>(std::cos(angle), -std::sin(angle));
}

View stored(const Numbers& numbers, Type type) {
  View view{std::make_shared<Storage>(2 * numbers.size() * size_of(type), "roots"), 0, {}};
  const auto write = [&](auto* to) {
    for (const std::complex<double>& z : numbers) {
      *to++ = static_cast<std::remove_pointer_t<decltype(to)>>(z.real());
      *to++ = static_cast<std::remove_pointer_t<decltype(to)>>(z.imag());
    }
  };
  type == Type::f64 ? write(host_write<double>(view)) : write(host_write<float>(view));
  return view;
}

enum class Table { pass, roots, chirp, chirp_transform };

/// Tables for a length (and a radix), made once per process.
View table(Table kind, std::uint64_t length, std::uint64_t radix, Type type) {
  using Key = std::tuple<Table, std::uint64_t, std::uint64_t, Type>;
  static std::mutex& mutex = *new std::mutex;
  static auto& tables = *new std::map<Key, View>;
  const std::lock_guard lock(mutex);
  const Key key{kind, length, radix, type};
  const auto found = tables.find(key);
  if (found != tables.end()) return found->second;
  Numbers numbers;
  const auto add = [&](std::uint64_t count, std::uint64_t step, std::uint64_t of) {
    for (std::uint64_t k = 0; k < count; ++k) numbers.push_back(root(k * step, of));
  };
  const auto chirp = [&](std::uint64_t k) { return root(k * k % (2 * length), 2 * length); };
  switch (kind) {
    case Table::pass:
      add(radix, 1, radix);
      add(kFineRoots, 1, length);
      add(length / kFineRoots + 1, kFineRoots, length);
      break;
    case Table::roots: add(length, 1, length); break;
    case Table::chirp:
      for (std::uint64_t k = 0; k < length; ++k) numbers.push_back(chirp(k));
      break;
    case Table::chirp_transform:
      numbers.assign(radix, 0);  // for this table, the length of the convolution
      for (std::uint64_t k = 0; k < length; ++k) {
        numbers[k] = std::conj(chirp(k));
        if (k > 0) numbers[radix - k] = numbers[k];
      }
      numbers = fft_of(numbers);
      break;
  }
  return tables.emplace(key, stored(numbers, type)).first->second;
}

Argument complex_argument(OpBackend& backend, const View& view, std::uint64_t count, Type type,
                          Access access) {
  Argument out = argument(backend, view, 2 * count, type, access);
  out.element *= 2;
  return out;
}

template <class T>
std::uint32_t word(T value) {
  return static_cast<std::uint32_t>(value);
}
LaunchGroups item_groups(const OpBackend& backend, std::uint64_t count) {
  const std::uint64_t most = std::min(backend.limits().groups, 1u << 16);
  return {word(std::min((count + 255) / 256, most))};
}

/// True for products of 2, 3, 5 and 7, for which there are passes.
bool smooth(std::uint64_t length) {
  for (const std::uint64_t p : {2, 3, 5, 7}) {
    while (length > 0 && length % p == 0) length /= p;
  }
  return length == 1;
}

/// Splits a smooth length into `count` divisors of similar size, none above `most`: each is the
/// nearest to the root of the rest. Empty if there are none.
std::vector<std::uint32_t> equal_parts(std::uint64_t length, std::uint32_t count,
                                       std::uint32_t most) {
  if (count == 1) {
    if (length > most) return {};
    return {static_cast<std::uint32_t>(length)};
  }
  const double wanted = std::pow(static_cast<double>(length), 1.0 / count);
  std::vector<std::uint32_t> divisors;
  for (std::uint32_t d = 2; d <= most; ++d) {
    if (length % d == 0) divisors.push_back(d);
  }
  const auto distance = [&](std::uint32_t d) { return std::abs(std::log(d / wanted)); };
  std::ranges::sort(divisors, {}, distance);
  for (const std::uint32_t d : divisors) {
    std::vector<std::uint32_t> rest = equal_parts(length / d, count - 1, most);
    if (rest.empty()) continue;
    rest.insert(rest.begin(), d);
    return rest;
  }
  return {};
}

bool fits(const FftPass& pass, const LaunchLimits& limits) {
  return pass.invocations() <= limits.local_size && pass.shared_bytes() <= limits.shared_bytes;
}

/// Sets the largest number of adjacent transforms that fits, at most `most`.
FftPass fitted(FftPass pass, const LaunchLimits& limits, std::uint32_t most) {
  pass.jobs = 1;
  for (FftPass more = pass; more.jobs <= most && fits(more, limits); more.jobs *= 2)
    pass.jobs = more.jobs;
  return pass;
}

/// Two passes with powers of two, for many numbers. Empty if they do not fit.
std::vector<FftPass> wide_passes(const LaunchLimits& limits, std::uint64_t length) {
  std::vector<FftPass> passes;
  for (const std::uint32_t radix : equal_parts(length, 2, kLongestWidePass)) {
    const FftPass pass{.radix = radix, .halves = true, .widest = 32};
    const std::uint32_t neighbours = radix > 512 ? kFewNeighbours : kNeighbours;
    passes.push_back(fitted(pass, limits, neighbours));
    if (!fits(passes.back(), limits) || passes.back().jobs < neighbours) return {};
  }
  return passes;
}

/// As many passes as `count`, with radices up to `most`. Empty if they do not fit.
std::vector<FftPass> equal_passes(const LaunchLimits& limits, FftPass pass, std::uint64_t length,
                                  std::uint32_t count, std::uint32_t most) {
  std::vector<FftPass> passes;
  for (const std::uint32_t radix : equal_parts(length, count, most)) {
    pass.radix = radix;
    passes.push_back(fitted(pass, limits, radix < kLongestPass ? kNeighbours : kFewNeighbours));
    if (!fits(passes.back(), limits)) return {};
  }
  return passes;
}

std::vector<FftPass> plan_of(const LaunchLimits& limits, const FftRows& fft) {
  const std::uint64_t length = fft.length;
  const bool wide = fft.type == Type::f64;
  FftPass pass{.wide = wide};
  if (length <= kLongestRow) {
    pass.radix = word(length);
    // Contiguous rows need no neighbours, and small workgroups hide each other's latency.
    if (fits(pass, limits)) return {fitted(pass, limits, std::max(1u, 1024 / pass.radix))};
  }
  const std::uint64_t many = limits.occupied_by_few ? 0 : kManyNumbers;
  const bool two = length > kLongestPass * kLongestPass && fft.rows * length > many;
  if (two && !wide && std::has_single_bit(length)) {
    std::vector<FftPass> passes = wide_passes(limits, length);
    if (!passes.empty()) return passes;
  }
  // The fewest passes with enough neighbours to read memory in long pieces.
  pass.halves = true;
  for (std::uint32_t most = kLongestPass;; most /= 2) {
    for (std::uint32_t count = 2; count < 8; ++count) {
      std::vector<FftPass> passes = equal_passes(limits, pass, length, count, most);
      if (!passes.empty()) return passes;
    }
  }
}

/// Roots of m as read by fft_pass_kernel().
Argument pass_roots(OpBackend& backend, std::uint64_t m, std::uint64_t radix, Type type) {
  return complex_argument(backend, table(Table::pass, m, radix, type),
                          radix + kFineRoots + m / kFineRoots + 1, type, Access::read);
}

void run_pass(OpBackend& backend, const FftRows& fft, const View& from, const View& to,
              FftPass pass, std::uint64_t span, double factor) {
  const bool wide = fft.type == Type::f64;
  const std::uint64_t radix = pass.radix;
  pass.near_load = radix < fft.length;
  pass.near_store = span > 1;
  if (pass.near_load) {
    pass.length = fft.length;
    pass.span = span;
  }
  const ComputeKernel& kernel = kernel_for(pass.key(), [&] { return fft_pass_kernel(pass); });
  const std::uint64_t numbers = fft.rows * fft.length, jobs = numbers / radix;
  const std::uint64_t rooted = (pass.real ? 2 : span) * radix;
  const Argument arguments[] = {
      complex_argument(backend, from, numbers, fft.type, Access::read),
      complex_argument(backend, to, numbers + (pass.real ? fft.rows : 0), fft.type, Access::write),
      pass_roots(backend, rooted, radix, fft.type)};
  const auto [low, high] = number_words(factor, wide);
  std::vector<std::uint32_t> words = {word(jobs), fft.inverse, low, high};
  if (pass.length == 0)
    words.insert(words.begin() + 1, {word(fft.length), word(fft.length / radix), word(span)});
  const std::uint64_t groups = (jobs + pass.jobs - 1) / pass.jobs;
  const std::uint64_t across =
      std::min<std::uint64_t>(groups, std::min(backend.limits().groups, 32768u));
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = {word(across), word((groups + across - 1) / across)}});
}

View scratch(const FftRows& fft) {
  return {std::make_shared<Storage>(2 * fft.rows * fft.length * size_of(fft.type), "fft"), 0, {}};
}

void by_passes(OpBackend& backend, const FftRows& fft) {
  const std::vector<FftPass> passes = plan_of(backend.limits(), fft);
  View from = fft.source;
  std::uint64_t span = 1;
  for (std::size_t k = 0; k < passes.size(); ++k) {
    const bool last = k + 1 == passes.size();
    const View to = last ? fft.target : scratch(fft);
    run_pass(backend, fft, from, to, passes[k], span, last ? fft.factor : 1);
    span *= passes[k].radix;
    from = to;
  }
}

void run_chirp(OpBackend& backend, const FftRows& from, const FftRows& to, const View& chirp,
               std::uint64_t valid, bool swap_in, bool swap_out, double factor) {
  const bool wide = from.type == Type::f64;
  const ComputeKernel& kernel =
      kernel_for(KernelFile::fft_chirp, from.type, {{"F", number_source("factor", wide)}});
  const std::uint64_t count = to.rows * to.length;
  const Argument arguments[] = {
      complex_argument(backend, from.source, from.rows * from.length, from.type, Access::read),
      complex_argument(backend, chirp, valid, from.type, Access::read),
      complex_argument(backend, to.target, count, to.type, Access::write)};
  const auto [low, high] = number_words(factor, wide);
  const std::uint32_t words[] = {
      word(count), word(to.length), word(from.length), word(valid), swap_in, swap_out, low, high};
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = item_groups(backend, count)});
}

/// A convolution with a chirp, by transforms of the next sufficient power of two.
/// Source: Bluestein, A linear filtering approach to the computation of the DFT, 1970.
void bluestein(OpBackend& backend, const FftRows& fft) {
  const std::uint64_t length = std::bit_ceil(2 * fft.length - 1);
  FftRows padded{.type = fft.type, .rows = fft.rows, .length = length};
  if (padded.rows * length > (std::uint64_t{1} << 31)) {
    throw Error(ErrorCode::Unsupported,
                "fft: expected fewer numbers of a length that is no power "
                "of two on a device, got a length of " +
                    std::to_string(fft.length));
  }
  const View chirp = table(Table::chirp, fft.length, 0, fft.type);
  const View transform = table(Table::chirp_transform, fft.length, length, fft.type);
  const auto through = [&](const View& from, bool inverse, double factor) {
    FftRows step = padded;
    step.source = from;
    step.target = scratch(padded);
    step.inverse = inverse;
    step.factor = factor;
    by_passes(backend, step);
    return step.target;
  };
  FftRows to = padded;
  to.target = scratch(padded);
  run_chirp(backend, fft, to, chirp, fft.length, fft.inverse, false, 1);
  FftRows spectrum = padded;
  spectrum.source = through(to.target, false, 1);
  to.target = scratch(padded);
  run_chirp(backend, spectrum, to, transform, length, false, false, 1);
  FftRows convolved = padded;
  convolved.source = through(to.target, true, 1 / static_cast<double>(length));
  run_chirp(backend, convolved, fft, chirp, fft.length, false, fft.inverse, fft.factor);
}

void short_dft(OpBackend& backend, const FftRows& fft) {
  const bool wide = fft.type == Type::f64;
  const ComputeKernel& kernel =
      kernel_for(KernelFile::fft_short, fft.type, {{"F", number_source("factor", wide)}});
  const std::uint64_t count = fft.rows * fft.length;
  const Argument arguments[] = {
      complex_argument(backend, fft.source, count, fft.type, Access::read),
      complex_argument(backend, fft.target, count, fft.type, Access::write),
      complex_argument(backend, table(Table::roots, fft.length, 0, fft.type), fft.length, fft.type,
                       Access::read)};
  const auto [low, high] = number_words(fft.factor, wide);
  const std::uint32_t words[] = {word(count), word(fft.length), fft.inverse, low, high};
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = item_groups(backend, count)});
}

}  // namespace

void rfft_on_device(OpBackend& backend, const FftRows& fft) {
  if (smooth(fft.length) && fft.length >= 8) {
    std::vector<FftPass> passes = plan_of(backend.limits(), fft);
    if (passes.size() == 1) {
      passes[0].real = true;
      return run_pass(backend, fft, fft.source, fft.target, passes[0], 1, 1);
    }
  }
  FftRows whole = fft;
  whole.target = scratch(fft);
  fft_on_device(backend, whole);
  const ComputeKernel& kernel = kernel_for(KernelFile::fft_unpack, fft.type);
  constexpr std::uint64_t kRadix = 8;
  const std::uint64_t numbers = fft.rows * fft.length, count = fft.rows * (fft.length / 2 + 1);
  const Argument arguments[] = {
      complex_argument(backend, whole.target, numbers, fft.type, Access::read),
      complex_argument(backend, fft.target, numbers + fft.rows, fft.type, Access::write),
      pass_roots(backend, 2 * fft.length, kRadix, fft.type)};
  const std::uint32_t words[] = {word(count), word(fft.length)};
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = item_groups(backend, count)});
}

void fft_on_device(OpBackend& backend, const FftRows& fft) {
  if (smooth(fft.length) && fft.length >= 8) return by_passes(backend, fft);
  if (fft.length <= kShort) return short_dft(backend, fft);
  bluestein(backend, fft);
}

}  // namespace topograd::ops::detail
