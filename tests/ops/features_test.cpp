// Features that operations state, against algorithms on counting numbers.
#include "../../ops/arrays.hpp"
#include "../../ops/run/run.hpp"
#include "../../ops/tensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace topograd::ops {
namespace {

using runtime::hybrid::Features;
using runtime::hybrid::MemoryPattern;

struct Tally {
  double operations = 0, loads = 0, different_loads = 0, stores = 0;  // bytes but for the first
};
Tally* tally = nullptr;

/// A number that counts its arithmetic.
struct Counted {
  double v = 0;
  Counted(double value = 0) : v(value) {}  // NOLINT: as numbers are
};
Counted count(double value) {
  ++tally->operations;
  return value;
}
Counted operator+(Counted a, Counted b) { return count(a.v + b.v); }
Counted operator-(Counted a, Counted b) { return count(a.v - b.v); }
Counted operator*(Counted a, Counted b) { return count(a.v * b.v); }
Counted operator/(Counted a, Counted b) { return count(a.v / b.v); }
Counted operator-(Counted a) { return count(-a.v); }
Counted exp(Counted a) { return count(std::exp(a.v)); }
bool operator<(Counted a, Counted b) { return count(0), a.v < b.v; }

/// Memory that counts reads and writes.
class Memory {
 public:
  explicit Memory(std::size_t size, double bytes = 4) : values_(size), bytes_(bytes) {
    std::mt19937 random(1);
    for (double& value : values_) value = std::uniform_real_distribution<double>(0.1, 1)(random);
  }
  Counted load(std::size_t k) {
    tally->loads += bytes_;
    if (read_.insert(k).second) tally->different_loads += bytes_;
    return values_[k];
  }
  void store(std::size_t k, Counted value) {
    if (written_.insert(k).second) tally->stores += bytes_;
    values_[k] = value.v;
  }
  std::size_t size() const { return values_.size(); }

 private:
  std::vector<double> values_;
  double bytes_;
  std::set<std::size_t> read_, written_;
};

Array<float> numbers(std::uint64_t size) {
  std::mt19937 random(1);
  Array<float> out(size);
  for (float& value : out.write()) value = std::uniform_real_distribution<float>(0.1f, 1)(random);
  return out;
}
Array<std::uint32_t> shuffled(std::uint32_t size) {
  Array<std::uint32_t> out(size);
  const auto places = out.write();
  for (std::uint32_t k = 0; k < size; ++k) places[k] = k;
  std::shuffle(places.begin(), places.end(), std::mt19937(1));
  return out;
}

void copy(Memory& from, Memory& to) {
  for (std::size_t k = 0; k < to.size(); ++k) to.store(k, from.load(k));
}
void sum_rows(Memory& from, Memory& to) {
  const std::size_t depth = from.size() / to.size();
  for (std::size_t r = 0; r < to.size(); ++r) {
    Counted sum = 0;
    for (std::size_t k = 0; k < depth; ++k) sum = sum + from.load(r * depth + k);
    to.store(r, sum);
  }
}
/// Decimation in time, without the bit reversal, which only moves numbers.
void transform(Memory& z, std::size_t rows, std::size_t n) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t half = 1; half < n; half *= 2) {
      for (std::size_t k = 0; k < n; ++k) {
        if ((k & half) != 0) continue;
        const std::size_t a = 2 * (r * n + k), b = a + 2 * half;
        const Counted x = z.load(a), y = z.load(a + 1), u = z.load(b), v = z.load(b + 1);
        const Counted wu = u * 0.6 - v * 0.8, wv = u * 0.8 + v * 0.6;
        z.store(a, x + wu);
        z.store(a + 1, y + wv);
        z.store(b, x - wu);
        z.store(b + 1, y - wv);
      }
    }
  }
}
void normalise(Memory& a, Memory& out, std::size_t depth, Memory* scale, Memory* shift) {
  for (std::size_t at = 0; at < a.size(); at += depth) {
    Counted sum = 0, squares = 0;
    for (std::size_t k = 0; k < depth; ++k) sum = sum + a.load(at + k);
    const double mean = sum.v / static_cast<double>(depth);
    for (std::size_t k = 0; k < depth; ++k) {
      const Counted x = a.load(at + k) - mean;
      squares = squares + x * x;
    }
    for (std::size_t k = 0; k < depth; ++k) {
      const Counted x = (a.load(at + k) - mean) * (1 / squares.v);
      out.store(at + k, scale == nullptr ? x : x * scale->load(k) + shift->load(k));
    }
  }
}

/// Squared distances of each query to some targets, or to all (0 places).
void measure(std::size_t queries, std::size_t targets, std::size_t depth, std::size_t places) {
  Memory q(queries * depth), t(targets * depth), listed(queries * places);
  const std::size_t of_each = places == 0 ? targets : places;
  Memory squared(queries * of_each);
  std::mt19937 random(1);
  for (std::size_t at = 0; at < squared.size(); ++at) {
    if (places > 0) listed.load(at);
    const std::size_t target = places > 0 ? random() % targets : at % targets;
    Counted sum = 0;
    for (std::size_t k = 0; k < depth; ++k) {
      const Counted apart = q.load(at / of_each * depth + k) - t.load(target * depth + k);
      sum = sum + apart * apart;
    }
    squared.store(at, sum);
  }
}

struct Case {
  std::string name;
  Operation op;
  std::function<void()> run;    ///< the last operation of this kind counts
  std::function<void()> count;  ///< a textbook algorithm
  double steps = 1;             ///< dependent steps
  MemoryPattern pattern = MemoryPattern::streaming;
  double within = 1.1;  ///< factor
};

std::vector<Case> array_cases() {
  constexpr std::uint32_t n = 4096;
  return {
      {"map", Operation::Map,
       [] { map([](Value x, Value y) { return x * exp(-y) + x; }, numbers(n), numbers(n)); },
       [] {
         Memory x(n), y(n), z(n);
         for (std::size_t k = 0; k < n; ++k) {
           const Counted a = x.load(k);
           z.store(k, a * exp(-y.load(k)) + a);
         }
       }},
      {"map with one number for all", Operation::Map,
       [] { map([](Value x, Value y) { return x * y; }, numbers(n), numbers(1)); },
       [] {
         Memory x(n), y(1), z(n);
         for (std::size_t k = 0; k < n; ++k) z.store(k, x.load(k) * y.load(0));
       }},
      {"sum", Operation::Reduce, [] { sum(numbers(n)); },
       [] {
         Memory x(n), y(1);
         sum_rows(x, y);
       },
       13, MemoryPattern::reduction},
      {"dot", Operation::Reduce, [] { dot(numbers(n), numbers(n)); },
       [] {
         Memory x(n), y(n), z(1);
         Counted sum = 0;
         for (std::size_t k = 0; k < n; ++k) sum = sum + x.load(k) * y.load(k);
         z.store(0, sum);
       },
       13, MemoryPattern::reduction},
      {"map_reduce", Operation::Reduce,
       [] {
         map_reduce(
             Reduction::sum, [](Value x) { return exp(x) * x; }, numbers(n));
       },
       [] {
         Memory x(n), z(1);
         Counted sum = 0;
         for (std::size_t k = 0; k < n; ++k) {
           const Counted a = x.load(k);
           sum = sum + exp(a) * a;
         }
         z.store(0, sum);
       },
       13, MemoryPattern::reduction},
      {"inclusive_scan", Operation::Scan, [] { inclusive_scan(numbers(n)); },
       [] {
         Memory x(n), y(n);
         Counted sum = 0;
         for (std::size_t k = 0; k < n; ++k) y.store(k, sum = sum + x.load(k));
       },
       26},
      {"sort", Operation::Sort, [] { sort(numbers(n)); },
       [] {
         Memory x(n), y(n);
         std::vector<Counted> order;
         for (std::size_t k = 0; k < n; ++k) order.push_back(x.load(k));
         std::sort(order.begin(), order.end());
         for (std::size_t k = 0; k < n; ++k) y.store(k, order[k]);
         tally->loads *= std::log2(n);  // each takes part in this many rounds
       },
       12, MemoryPattern::scatter, 1.5},
      {"gather", Operation::Gather, [] { gather(numbers(n), shuffled(n)); },
       [] {
         Memory x(n), index(n), y(n);
         const Array<std::uint32_t> places = shuffled(n);
         for (std::size_t k = 0; k < n; ++k) {
           index.load(k);
           y.store(k, x.load(places.read()[k]));
         }
       },
       1, MemoryPattern::gather},
      {"scatter", Operation::Scatter,
       [] {
         Array<float> target = numbers(n);
         scatter(numbers(n), shuffled(n), target, Combine::add);
       },
       [] {
         Memory x(n), index(n), y(n);
         const Array<std::uint32_t> places = shuffled(n);
         for (std::size_t k = 0; k < n; ++k) {
           index.load(k);
           const std::size_t to = places.read()[k];
           y.store(to, y.load(to) + x.load(k));
         }
       },
       1, MemoryPattern::scatter},
      {"compact", Operation::Compact, [] { compact([](Value x) { return x - 0.5; }, numbers(n)); },
       [] {
         Memory x(n), keep(n), place(n), y(n);
         for (std::size_t k = 0; k < n; ++k) {
           place.load(k);
           if (Counted(0) < keep.load(k)) y.store(k, x.load(k));
         }
       },
       1, MemoryPattern::scatter},
      {"histogram", Operation::Histogram, [] { histogram(numbers(n), {.count = 16}); },
       [] {
         Memory x(n), bins(16);
         for (std::size_t k = 0; k < n; ++k) {
           const Counted bin = (x.load(k) - 0) * 16;
           if (bin < Counted(17)) bins.store(static_cast<std::size_t>(bin.v), Counted(1) + 1);
         }
         for (std::size_t k = 0; k < 16; ++k) bins.store(k, 0);
       },
       1, MemoryPattern::scatter},
      {"segmented_reduce", Operation::Segments,
       [] {
         Array<std::uint32_t> starts(n / 16 + 1);
         for (std::uint32_t k = 0; k <= n / 16; ++k) starts.write()[k] = 16 * k;
         segmented_reduce(Reduction::sum, numbers(n), starts);
       },
       [] {
         Memory x(n), starts(n / 16 + 1), y(n / 16);
         copy(starts, starts);
         tally->stores = 0;
         sum_rows(x, y);
       },
       5, MemoryPattern::reduction},
      {"random_uniform", Operation::Random, [] { random_uniform<float>(n, 7); },
       [] {
         Memory y(n);
         for (std::size_t k = 0; k < n; ++k) {
           if (k % 4 == 0) {
             for (int round = 0; round < 10; ++round)  // two products, four xors, two sums
               Counted(1) * 2, Counted(1) * 2, Counted(1) - 2, Counted(1) - 2, Counted(1) - 2,
                   Counted(1) - 2, Counted(1) + 2, Counted(1) + 2;
           }
           y.store(k, Counted(256) / 8 * 0.5);
         }
       }},
  };
}

std::vector<Case> tensor_cases() {
  constexpr std::size_t m = 24, n = 36, d = 20;
  const auto of = [](const Shape& shape) { return randn(shape, 3).evaluate(); };
  const bool graphs = NearestIndex(of({2, d})).is_approximate();
  return {
      {"fused map", Operation::Map,
       [=] {
         (of({m, n}) * of({n}) + of({m, n})).evaluate();
       },
       [] {
         Memory a(m * n), b(n), c(m * n), out(m * n);
         for (std::size_t k = 0; k < m * n; ++k)
           out.store(k, a.load(k) * b.load(k % n) + c.load(k));
       }},
      {"sum of rows", Operation::Reduce,
       [=] {
         sum(of({m, 64}), {1}).evaluate();
       },
       [] {
         Memory a(m * 64), out(m);
         sum_rows(a, out);
       },
       7, MemoryPattern::reduction},
      {"matmul", Operation::Matmul,
       [=] {
         matmul(of({m, d}), of({d, n})).evaluate();
       },
       [] {
         Memory a(m * d), b(d * n), c(m * n);
         for (std::size_t i = 0; i < m; ++i) {
           for (std::size_t j = 0; j < n; ++j) {
             Counted sum = 0;
             for (std::size_t k = 0; k < d; ++k) sum = sum + a.load(i * d + k) * b.load(k * n + j);
             c.store(i * n + j, sum);
           }
         }
       },
       6},
      {"conv2d", Operation::Filter,
       [=] {
         conv2d(of({2, 3, 9, 8}), of({4, 3, 3, 3})).evaluate();
       },
       [] {
         Memory a(2 * 3 * 9 * 8), w(4 * 3 * 9), out(2 * 4 * 7 * 6);
         for (std::size_t at = 0; at < out.size(); ++at) {
           const std::size_t x = at % 6, y = at / 6 % 7, o = at / 42 % 4, image = at / 168;
           Counted sum = 0;
           for (std::size_t term = 0; term < 27; ++term) {
             const std::size_t c = term / 9, i = term / 3 % 3, j = term % 3;
             sum = sum + a.load(((image * 3 + c) * 9 + y + i) * 8 + x + j) * w.load(o * 27 + term);
           }
           out.store(at, sum);
         }
       },
       6},
      {"fft", Operation::Fft,
       [=] {
         fft(of({3, 64, 2})).evaluate();
       },
       [] {
         Memory z(3 * 64 * 2);
         transform(z, 3, 64);
       },
       6},
      {"cosine_similarity", Operation::CosineSimilarity,
       [=] {
         cosine_similarity(of({5, 64}), of({m, 64})).evaluate();
       },
       [] {
         Memory q(5 * 64), t(m * 64), out(5 * m);
         for (std::size_t k = 0; k < 5 * m; ++k) {
           Counted product = 0, left = 0, right = 0;
           for (std::size_t i = 0; i < 64; ++i) {
             const Counted a = q.load(k / m * 64 + i), b = t.load(k % m * 64 + i);
             product = product + a * b;
             left = left + a * a;
             right = right + b * b;
           }
           out.store(k, product);
         }
       },
       7, MemoryPattern::reduction},
      {"top_k", Operation::TopK,
       [=] {
         top_k(of({m, 256}), 4);
       },
       [] {
         Memory a(m * 256), values(m * 4), places(m * 4);
         for (std::size_t r = 0; r < m; ++r) {
           std::vector<Counted> best(4, -1e9);
           for (std::size_t k = 0; k < 256; ++k) {
             const Counted x = a.load(r * 256 + k);
             if (!(best[3] < x)) continue;
             best[3] = x;
             for (std::size_t i = 3; i > 0 && best[i - 1] < best[i]; --i)
               std::swap(best[i - 1], best[i]);
           }
           for (std::size_t i = 0; i < 4; ++i) {
             values.store(r * 4 + i, best[i]);
             places.store(r * 4 + i, 0);
           }
         }
       },
       9, MemoryPattern::reduction, 1.3},
      {"nearest of all", Operation::Nearest,
       [=] {
         NearestIndex(of({40, d}), {.exact = true}).search(of({m, d}), 3);
       },
       [] { measure(m, 40, d, 0); }, 6, MemoryPattern::reduction},
      {"nearest of a graph", Operation::Nearest,
       [=] {
         NearestIndex(of({300, d})).search(of({m, d}), 3);
       },
       // Without a graph library all targets are compared.
       [=] { measure(m, 300, d, graphs ? 100 : 0); }, 6,
       graphs ? MemoryPattern::gather : MemoryPattern::reduction},
      {"take", Operation::Gather,
       [=] {
         take(of({64, 8}), arange(32)).evaluate();
       },
       [] {
         Memory a(64 * 8), index(32), out(32 * 8);
         for (std::size_t k = 0; k < 32; ++k) {
           index.load(k);
           for (std::size_t i = 0; i < 8; ++i) out.store(k * 8 + i, a.load(k * 8 + i));
         }
       },
       1, MemoryPattern::gather},
      {"softmax", Operation::Softmax,
       [=] {
         softmax(of({m, 64})).evaluate();
       },
       [] {
         Memory a(m * 64), out(m * 64);
         for (std::size_t at = 0; at < m * 64; at += 64) {
           Counted best = -1e9, sum = 0;
           for (std::size_t k = 0; k < 64; ++k) best = std::max(best, a.load(at + k));
           for (std::size_t k = 0; k < 64; ++k) sum = sum + exp(a.load(at + k) - best);
           for (std::size_t k = 0; k < 64; ++k) out.store(at + k, exp(a.load(at + k) - best) / sum);
         }
       },
       15, MemoryPattern::reduction},
      {"layer_norm", Operation::LayerNorm,
       [=] {
         layer_norm(of({m, 64})).evaluate();
       },
       [] {
         Memory a(m * 64), out(m * 64);
         normalise(a, out, 64, nullptr, nullptr);
       },
       15, MemoryPattern::reduction},
      {"layer_norm with a scale", Operation::LayerNorm,
       [=] {
         layer_norm(of({m, 64}), of({64}), of({64})).evaluate();
       },
       [] {
         Memory a(m * 64), scale(64), shift(64), out(m * 64);
         normalise(a, out, 64, &scale, &shift);
       },
       15, MemoryPattern::reduction},
      {"concat", Operation::Map,
       [=] {
         concat({of({m, n}), of({d, n})});
       },
       [] {
         Memory a((m + d) * n), out((m + d) * n);
         copy(a, out);
       }},
      {"conversion", Operation::Map,
       [=] {
         of({m, n}).to(Type::f64).evaluate();
       },
       [] {
         Memory a(m * n), out(m * n, 8);
         for (std::size_t k = 0; k < m * n; ++k) out.store(k, count(a.load(k).v));
       }},
  };
}

/// The factor between two numbers.
double apart(double a, double b) { return std::max(a, b) / std::max(1e-30, std::min(a, b)); }

class StatedFeatures : public testing::TestWithParam<Case> {};

TEST_P(StatedFeatures, AreWhatIsCounted) {
  const Case& c = GetParam();
  const RecordOperations record;
  c.run();
  const auto ran =
      std::ranges::find(record.all().rbegin(), record.all().rend(), c.op, &RanOperation::op);
  ASSERT_NE(ran, record.all().rend());
  const Features& stated = ran->features;
  const auto items = static_cast<double>(ran->size);
  Tally counted;
  tally = &counted;
  c.count();
  tally = nullptr;
  EXPECT_LT(apart(stated.operations, std::max(1.0, counted.operations / items)), c.within)
      << stated.operations << " operations, counted " << counted.operations / items;
  EXPECT_LT(apart(stated.bytes, (counted.different_loads + counted.stores) / items), 1.1)
      << stated.bytes << " bytes, counted " << (counted.different_loads + counted.stores) / items;
  const double reuse = counted.different_loads > 0 ? counted.loads / counted.different_loads : 1;
  EXPECT_LT(apart(stated.reuse, reuse), 1.1) << stated.reuse << " reads, counted " << reuse;
  EXPECT_LT(apart(stated.parallelism, 1 / c.steps), 1.01) << 1 / stated.parallelism;
  EXPECT_EQ(stated.pattern, c.pattern);
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Arrays, StatedFeatures, testing::ValuesIn(array_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Tensors, StatedFeatures, testing::ValuesIn(tensor_cases()), name_of);

}  // namespace
}  // namespace topograd::ops
