// Timed operations on arrays.
#include "bench_ops_cases.hpp"

#include "../../../../ops/arrays.hpp"

namespace topograd::command {
namespace {

using ops::Array;

/// Ten operations per element.
template <class T>
T ten(const T& v) {
  const T a = v * 1.5 + 0.25, b = a * a - v, c = b * 0.5 + a;
  return (c - 1.0) * c + b;
}

}  // namespace

std::vector<OpCase> array_cases() {
  using In = const OpInputs&;
  return {
      {"map", 8, nullptr,
       [](In in) -> OpWork {
         return [in] { return reading(map([](Value v) { return v * 2.0 + 1.0; }, in.x)); };
       }},
      {"zip", 12, nullptr,
       [](In in) -> OpWork {
         return [in] { return reading(zip([](Value a, Value b) { return a * b; }, in.x, in.y)); };
       }},
      {"map of ten", 8, nullptr,
       [](In in) -> OpWork {
         return [in] { return reading(map([](Value v) { return ten(v); }, in.x)); };
       }},
      {"ten maps", 80, nullptr,
       [](In in) -> OpWork {
         return [in] {
           Array<float> a = in.x;
           for (int k = 0; k < 10; ++k) a = map([](Value v) { return v * 1.5; }, a);
           return reading(a);
         };
       }},
      {"reduce", 4, nullptr, [](In in) -> OpWork { return [in] { return reading(sum(in.x)); }; }},
      {"dot", 8, nullptr,
       [](In in) -> OpWork { return [in] { return reading(dot(in.x, in.y)); }; }},
      {"compensated sum", 4, nullptr,
       [](In in) -> OpWork { return [in] { return reading(compensated_sum(in.x)); }; }},
      {"product", 4, nullptr,
       [](In in) -> OpWork { return [in] { return reading(product(in.x)); }; }},
      {"min", 4, nullptr, [](In in) -> OpWork { return [in] { return reading(ops::min(in.x)); }; }},
      {"max", 4, nullptr, [](In in) -> OpWork { return [in] { return reading(ops::max(in.x)); }; }},
      {"norm", 4, nullptr, [](In in) -> OpWork { return [in] { return reading(norm(in.x)); }; }},
      {"argmax", 4, nullptr,
       [](In in) -> OpWork { return [in] { return reading(ops::argmax(in.x)); }; }},
      {"segmented reduce", 4, nullptr,
       [](In in) -> OpWork {
         std::vector<std::uint32_t> starts;
         for (std::uint64_t k = 0; k < in.count(); k += 100)
           starts.push_back(static_cast<std::uint32_t>(k));
         starts.push_back(static_cast<std::uint32_t>(in.count()));
         const Array<std::uint32_t> at(starts);
         return [in, at] { return reading(segmented_reduce(ops::Reduction::sum, in.x, at)); };
       }},
      {"histogram", 4, nullptr,
       [](In in) -> OpWork { return [in] {
                               return reading(histogram(in.x, {256, 0, 1}));
                             }; }},
      {"scan", 8, nullptr,
       [](In in) -> OpWork { return [in] { return reading(inclusive_scan(in.x)); }; }},
      {"exclusive scan", 8, nullptr,
       [](In in) -> OpWork { return [in] { return reading(exclusive_scan(in.x)); }; }},
      {"compact", 6, nullptr,
       [](In in) -> OpWork {
         return [in] {
           return reading(compact(
               [](Value v) { return select(v > literal(0.5), literal(1), literal(0)); }, in.x));
         };
       }},
      {"gather", 12, nullptr,
       [](In in) -> OpWork { return [in] { return reading(gather(in.x, in.places)); }; }},
      {"scatter", 16, nullptr,
       [](In in) -> OpWork {
         // Sums grow between runs, so they must not change the inputs of other operations.
         const Array<float> sums = map([](Value v) { return v + literal(1); }, in.y);
         return [in, sums] {
           Array<float> target = sums;
           scatter(in.x, in.places, target, ops::Combine::add);
           return reading(target);
         };
       }},
      {"sort", 8, nullptr, [](In in) -> OpWork { return [in] { return reading(sort(in.keys)); }; }},
      {"argsort", 8, nullptr,
       [](In in) -> OpWork { return [in] { return reading(argsort(in.keys)); }; }},
      {"sort by key", 16, nullptr,
       [](In in) -> OpWork { return [in] { return reading(sort_by_key(in.keys, in.x).second); }; }},
      {"random uniform", 4, nullptr,
       [](In in) -> OpWork {
         const auto placed = in.x.untyped().storage->placed();
         return [n = in.count(), o = ops::OpOptions{.device = placed}] {
           return reading(ops::random_uniform<float>(n, 1, 0, o));
         };
       }},
      {"random normal", 4, nullptr,
       [](In in) -> OpWork {
         const auto placed = in.x.untyped().storage->placed();
         return [n = in.count(), o = ops::OpOptions{.device = placed}] {
           return reading(ops::random_normal<float>(n, 1, 0, o));
         };
       }},
  };
}

}  // namespace topograd::command
