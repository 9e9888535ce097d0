// Internal: transforms of rows by KissFFT in double precision, with Bluestein's algorithm for
// lengths that have large prime factors.
//
// KissFFT's scalar loops take as long for float as for double, and its roots of unity in float have
// several times the error of a rounded result. So rows of floats are computed in double.
#include "fft_run.hpp"

#include <kissfft/kissfft.hh>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <map>
#include <mutex>
#include <numbers>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace topograd::ops::detail {
namespace {

using Complex = std::complex<double>;
using Numbers = std::vector<Complex>;

/// Sum of the prime factors above 5 from which on Bluestein's algorithm is faster: such a factor
/// costs as many products per number.
constexpr std::uint64_t kMostGeneric = 40;

std::uint64_t sum_of_generic_factors(std::uint64_t n) {
  for (const std::uint64_t p : {2, 3, 5})
    while (n % p == 0) n /= p;
  std::uint64_t sum = 0;
  for (std::uint64_t p = 7; p * p <= n; p += 2)
    for (; n % p == 0; n /= p) sum += p;
  return n > 1 ? sum + n : sum;
}

/// The least product of 2, 3 and 5 that is not less than n.
std::uint64_t smooth_length(std::uint64_t n) {
  std::uint64_t best = 1;
  while (best < n) best *= 2;
  for (std::uint64_t five = 1; five < best; five *= 5) {
    for (std::uint64_t three = five; three < best; three *= 3) {
      std::uint64_t length = three;
      while (length < n) length *= 2;
      if (length < best) best = length;
    }
  }
  return best;
}

/// e^(−2πi k/n)
Complex root(std::uint64_t k, std::uint64_t n) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), -std::sin(angle)};
}

/// Tables of one length and sign.
struct Tables {
  Tables(std::uint64_t n, RowKind kind)
      : length(n),
        inverse(kind == RowKind::inverse),
        generic(sum_of_generic_factors(n)),
        padded(generic > kMostGeneric ? smooth_length(2 * n - 1) : n),
        plan(padded, inverse) {
    if (kind == RowKind::real)
      for (std::uint64_t k = 0; k <= n / 2; ++k) half_roots.push_back(root(k, 2 * n));
    if (padded > n) find_chirp();
  }

  bool bluestein() const { return !chirp.empty(); }

  /// Source: Bluestein, A Linear Filtering Approach to the Computation of Discrete Fourier
  /// Transform, IEEE Trans. Audio Electroacoust. 18 (1970): jk = (j² + k² − (k − j)²)/2.
  void find_chirp() {
    Numbers filter(padded);
    chirp.resize(length);
    // j² modulo 2n, without a product that could overflow.
    for (std::uint64_t j = 0, square = 0; j < length; ++j) {
      chirp[j] = root(square, 2 * length);
      if (inverse) chirp[j] = std::conj(chirp[j]);
      filter[j] = std::conj(chirp[j]) / static_cast<double>(padded);
      if (j > 0) filter[padded - j] = filter[j];
      square = (square + 2 * j + 1) % (2 * length);
    }
    chirp_transform.resize(padded);
    plan.transform(filter.data(), chirp_transform.data());
    back.emplace(padded, !inverse);
  }

  std::uint64_t length;
  bool inverse;
  std::uint64_t generic, padded;
  kissfft<double> plan;
  std::optional<kissfft<double>> back;  // the other sign; with chirp
  Numbers chirp, chirp_transform;       // of Bluestein's algorithm, else empty
  Numbers half_roots;                   // of transforms of real numbers
};

const Tables& tables_for(std::uint64_t length, RowKind kind) {
  static std::mutex& mutex = *new std::mutex;
  static auto& tables = *new std::map<std::pair<std::uint64_t, RowKind>, Tables>;
  const std::lock_guard lock(mutex);
  return tables.try_emplace(std::pair(length, kind), length, kind).first->second;
}

template <class To, class From>
void convert(const From* from, std::size_t count, To* to) {
  for (std::size_t k = 0; k < count; ++k) to[k] = static_cast<To>(from[k]);
}

}  // namespace

template <class T>
struct RowTransform<T>::Impl {
  Impl(std::uint64_t length, RowKind k) : tables(tables_for(length, k)), kind(k) {
    if (tables.bluestein()) {
      padded.resize(tables.padded);
      convolved.resize(tables.padded);
    } else if (tables.generic > 0 || tables.length == 1) {  // these write to their plan
      own.emplace(tables.plan);
    }
  }

  void transform(const Complex* in, Complex* out) {
    if (!tables.bluestein()) {
      (own ? *own : tables.plan).transform(in, out);
      return;
    }
    const std::size_t n = tables.length;
    for (std::size_t k = 0; k < n; ++k) padded[k] = in[k] * tables.chirp[k];
    std::fill(padded.begin() + static_cast<std::ptrdiff_t>(n), padded.end(), Complex(0));
    tables.plan.transform(padded.data(), convolved.data());
    for (std::size_t k = 0; k < padded.size(); ++k) convolved[k] *= tables.chirp_transform[k];
    tables.back->transform(convolved.data(), padded.data());
    for (std::size_t k = 0; k < n; ++k) out[k] = padded[k] * tables.chirp[k];
  }

  /// The transform of real numbers from that of their pairs. In place: out has length + 1 numbers.
  void separate(Complex* out) const {
    const std::size_t n = tables.length;
    out[n] = out[0];
    for (std::size_t k = 0; 2 * k <= n; ++k) {
      const Complex a = out[k], b = std::conj(out[n - k]);
      const Complex even = 0.5 * (a + b), odd = 0.5 * (a - b);
      const Complex turned = tables.half_roots[k] * Complex(odd.imag(), -odd.real());
      out[k] = even + turned;
      out[n - k] = std::conj(even - turned);
    }
  }

  void run(const Complex* in, Complex* out) {
    transform(in, out);
    if (kind == RowKind::real) separate(out);
  }

  const Tables& tables;
  RowKind kind;
  // KissFFT writes a buffer of its plan for factors other than 2, 3, 4 and 5.
  std::optional<kissfft<double>> own;
  Numbers padded, convolved;  // of Bluestein's algorithm
  Numbers wide_in, wide_out;  // of a row of floats
};

template <class T>
RowTransform<T>::RowTransform(std::uint64_t length, RowKind kind)
    : impl_(std::make_unique<Impl>(length, kind)) {}

template <class T>
RowTransform<T>::~RowTransform() = default;

template <class T>
void RowTransform<T>::run(const T* in, T* out) {
  if constexpr (std::is_same_v<T, double>) {
    impl_->run(reinterpret_cast<const Complex*>(in), reinterpret_cast<Complex*>(out));
  } else {
    const std::size_t n = impl_->tables.length, results = n + (impl_->kind == RowKind::real);
    impl_->wide_in.resize(n);
    impl_->wide_out.resize(results);
    convert(in, 2 * n, reinterpret_cast<double*>(impl_->wide_in.data()));
    impl_->run(impl_->wide_in.data(), impl_->wide_out.data());
    convert(reinterpret_cast<const double*>(impl_->wide_out.data()), 2 * results, out);
  }
}

template class RowTransform<float>;
template class RowTransform<double>;

}  // namespace topograd::ops::detail
