// Every tensor operation at odd sizes, on offset and transposed views, against plain loops, on one
// device.
#include "tensor_cases.hpp"
#include "tensor_layout_rows.hpp"
#include "tensor_references.hpp"

#include "../../../ops/tensor/conv/conv.hpp"
#include "../../../ops/tensor/losses/losses.hpp"
#include "../../../ops/tensor/losses/softmax.hpp"
#include "../../../ops/tensor/matmul/matmul.hpp"
#include "../../../ops/tensor/reduce.hpp"
#include "../../../ops/tensor/search/search.hpp"

#include <algorithm>

namespace topograd::ops::test {
namespace {

std::size_t at(std::int64_t k) { return static_cast<std::size_t>(k); }

const std::vector<LayoutRow>& rows_and_losses() {
  const auto rows = [](std::int64_t n) { return std::vector<Shape>{{n > 1000 ? 1 : 3, n}}; };
  const auto columns = [](std::int64_t n) { return std::vector<Shape>{{n, 3}}; };
  const auto pair = [](std::int64_t n) { return std::vector<Shape>{{1, n}, {1, n}}; };
  static const std::vector<LayoutRow> all = {
      {"softmax", rows, [](const Tensors& x) { return softmax(x[0]); },
       [](const Inputs& x, std::int64_t n) { return reference::softmax(x[0], n, 1); }, 3e-6, 1e-13,
       0, 1'000'003, true},
      {"softmax of columns", columns, [](const Tensors& x) { return softmax(x[0], 0); },
       [](const Inputs& x, std::int64_t n) { return reference::softmax(x[0], n, 3); }, 3e-6, 1e-13,
       1, 257},
      {"log_softmax", rows, [](const Tensors& x) { return log_softmax(x[0]); },
       [](const Inputs& x, std::int64_t n) {
         Numbers out = reference::softmax(x[0], n, 1);
         for (double& v : out) v = std::log(v);
         return out;
       },
       4e-6},
      {"layer_norm",
       [](std::int64_t n) {
         return std::vector<Shape>{{n > 1000 ? 1 : 3, n}, {1, n}, {1, n}};
       },
       [](const Tensors& x) { return layer_norm(x[0], x[1].reshape({-1}), x[2].reshape({-1})); },
       [](const Inputs& x, std::int64_t n) { return reference::layer_norm(x[0], x[1], x[2], n); },
       2e-5, 1e-12},
      {"mse_loss", pair, [](const Tensors& x) { return mse_loss(x[0], x[1]); },
       [](const Inputs& x, std::int64_t) {
         return reference::mean(x, [](double u, double v) { return (u - v) * (u - v); });
       }},
      {"mae_loss", pair, [](const Tensors& x) { return mae_loss(x[0], x[1]); },
       [](const Inputs& x, std::int64_t) {
         return reference::mean(x, [](double u, double v) { return std::abs(u - v); });
       }},
      {"huber_loss", pair, [](const Tensors& x) { return huber_loss(x[0], x[1], 0.7); },
       [](const Inputs& x, std::int64_t) {
         return reference::mean(x, [](double u, double v) {
           const double e = std::abs(u - v);
           return e <= 0.7 ? e * e / 2 : 0.7 * (e - 0.35);
         });
       }},
      {"tukey_loss", pair, [](const Tensors& x) { return tukey_loss(x[0], x[1], 1.5); },
       [](const Inputs& x, std::int64_t) {
         return reference::mean(x, [](double u, double v) {
           const double t = (u - v) / 1.5, inside = std::max(0.0, 1 - t * t);
           return 0.375 * (1 - inside * inside * inside);
         });
       }},
      {"binary_cross_entropy", pair,
       [](const Tensors& x) { return binary_cross_entropy(x[0], x[1]); },
       [](const Inputs& x, std::int64_t) {
         return reference::mean(x, [](double u, double v) {
           return std::max(u, 0.0) - u * v + std::log1p(std::exp(-std::abs(u)));
         });
       }},
      {"cross_entropy",
       [](std::int64_t n) {
         return std::vector<Shape>{{n, 5}, {n, 5}};
       },
       [](const Tensors& x) { return cross_entropy(x[0], x[1]); },
       [](const Inputs& x, std::int64_t n) {
         const Numbers shares = reference::softmax(x[0], 5, 1);
         double sum = 0;
         for (std::size_t k = 0; k < shares.size(); ++k) sum -= x[1][k] * std::log(shares[k]);
         return Numbers{sum / static_cast<double>(n)};
       },
       1e-5, 1e-12},
  };
  return all;
}

const std::vector<LayoutRow>& axes() {
  static const std::vector<LayoutRow> all = [] {
    struct Along {
      const char* name;
      Tensor (*run)(const Tensor&, const Axes&, bool);
      reference::Fold fold;
      double bound;  ///< of f32
    };
    const Along folds[] = {{"sum", sum, reference::Fold::sum, 1e-5},
                           {"mean", mean, reference::Fold::mean, 1e-5},
                           {"variance", variance, reference::Fold::variance, 1e-5},
                           {"max", max, reference::Fold::max, 0},
                           {"min", min, reference::Fold::min, 0}};
    std::vector<LayoutRow> out;
    for (const Along& a : folds) {
      const bool exact = a.bound == 0;
      for (const int axis : {0, 1, 2}) {
        const auto shape = [axis](std::int64_t n) {
          Shape s = n > 1000 ? Shape{1, 1, 1} : Shape{3, 2, 5};
          s[at(axis)] = n;
          return s;
        };
        out.push_back({a.name, [shape](std::int64_t n) { return std::vector<Shape>{shape(n)}; },
                       [a, axis](const Tensors& x) { return a.run(x[0], {axis}, false); },
                       [a, axis, shape](const Inputs& x, std::int64_t n) {
                         return reference::fold(x[0], shape(n), at(axis), a.fold);
                       },
                       a.bound, exact ? 0 : 1e-13, a.fold == reference::Fold::sum ? 0 : 1,
                       1'000'003, a.fold == reference::Fold::sum});
      }
    }
    for (const bool largest : {true, false}) {
      out.push_back({largest ? "argmax" : "argmin",
                     [](std::int64_t n) {
                       return std::vector<Shape>{{n > 1000 ? 1 : 3, n}};
                     },
                     [largest](const Tensors& x) { return largest ? argmax(x[0]) : argmin(x[0]); },
                     [largest](const Inputs& x, std::int64_t n) {
                       return reference::fold(
                           x[0], {n > 1000 ? 1 : 3, n}, 1,
                           largest ? reference::Fold::argmax : reference::Fold::argmin);
                     },
                     0, 0});
    }
    return out;
  }();
  return all;
}

/// Fewer rows, because the software device is slow.
std::int64_t fewer(std::int64_t n) { return n > 1000 ? n / 33 : n; }

const std::vector<LayoutRow>& products() {
  static const std::vector<LayoutRow> all = {
      {"matmul of many rows",
       [](std::int64_t n) {
         return std::vector<Shape>{{fewer(n), 3}, {3, 2}};
       },
       [](const Tensors& x) { return matmul(x[0], x[1]); },
       [](const Inputs& x, std::int64_t n) {
         return reference::matmul(x[0], x[1], fewer(n), 3, 2);
       },
       4e-6, 1e-14, 0, 1'000'003, true},
      {"matmul of many terms",
       [](std::int64_t n) {
         return std::vector<Shape>{{5, n}, {n, 33}};
       },
       [](const Tensors& x) { return matmul(x[0], x[1]); },
       [](const Inputs& x, std::int64_t n) { return reference::matmul(x[0], x[1], 5, n, 33); },
       2e-5, 1e-13, 0, 257, true},
      // The largest number that loops of the software device reach.
      {"matmul of very many terms",
       [](std::int64_t n) {
         return std::vector<Shape>{{2, n / 17}, {n / 17, 3}};
       },
       [](const Tensors& x) { return matmul(x[0], x[1]); },
       [](const Inputs& x, std::int64_t n) { return reference::matmul(x[0], x[1], 2, n / 17, 3); },
       1e-4, 1e-12, 1000},
      {"matmul of many columns",
       [](std::int64_t n) {
         return std::vector<Shape>{{33, 5}, {5, fewer(n)}};
       },
       [](const Tensors& x) { return matmul(x[0], x[1]); },
       [](const Inputs& x, std::int64_t n) {
         return reference::matmul(x[0], x[1], 33, 5, fewer(n));
       },
       5e-6, 1e-14, 0, 1'000'003, true},
      {"cosine_similarity",
       [](std::int64_t n) {
         return std::vector<Shape>{{2, n}, {5, n}};
       },
       [](const Tensors& x) { return cosine_similarity(x[0], x[1]); },
       [](const Inputs& x, std::int64_t n) { return reference::cosines(x[0], x[1], n); }, 2e-5,
       1e-13},
      {"cosine_similarity of many",
       [](std::int64_t n) {
         return std::vector<Shape>{{2, 7}, {fewer(n), 7}};
       },
       [](const Tensors& x) { return cosine_similarity(x[0], x[1]); },
       [](const Inputs& x, std::int64_t) { return reference::cosines(x[0], x[1], 7); }, 2e-6, 1e-13,
       1, 1'000'003, true},
      {"top_k",
       [](std::int64_t n) {
         return std::vector<Shape>{{2, n}};
       },
       [](const Tensors& x) { return top_k(x[0], std::min<std::int64_t>(x[0].size(1), 4)).values; },
       [](const Inputs& x, std::int64_t n) { return reference::largest(x[0], n, 4); }, 0, 0, 1,
       1'000'003, true},
      {"conv2d",
       [](std::int64_t n) {
         return std::vector<Shape>{{1, 2, n > 1000 ? n / 10 : n, 5}, {3, 2, 3, 2}};
       },
       [](const Tensors& x) { return conv2d(x[0], x[1], {.padding = 1}); },
       [](const Inputs& x, std::int64_t) { return reference::conv2d(x[0], x[1]); }, 5e-6, 1e-13, 1,
       1'000'003, true},
      {"filter2d",
       [](std::int64_t n) {
         return std::vector<Shape>{{n > 1000 ? n / 5 : n, 5}};
       },
       [](const Tensors& x) { return filter2d(x[0], reference::kFilter, 3, 3); },
       [](const Inputs& x, std::int64_t) { return reference::filter2d(x[0]); }, 5e-6, 1e-13, 1,
       1'000'003, true},
      {"max_pool2d",
       [](std::int64_t n) {
         return std::vector<Shape>{{n > 1000 ? n / 9 : n, 9}};
       },
       [](const Tensors& x) { return max_pool2d(x[0], 3, {.stride = 2, .padding = 1}); },
       [](const Inputs& x, std::int64_t) { return reference::pool(x[0], true); }, 0, 0, 1,
       1'000'003, true},
      {"avg_pool2d",
       [](std::int64_t n) {
         return std::vector<Shape>{{n > 1000 ? n / 9 : n, 9}};
       },
       [](const Tensors& x) { return avg_pool2d(x[0], 3, {.stride = 2, .padding = 1}); },
       [](const Inputs& x, std::int64_t) { return reference::pool(x[0], false); }},
  };
  return all;
}

}  // namespace

void check_rows_and_losses_of_views(const Device& device) {
  check_layout_rows(rows_and_losses(), device);
}
void check_axes_of_views(const Device& device) { check_layout_rows(axes(), device); }
void check_products_of_views(const Device& device) { check_layout_rows(products(), device, true); }

void check_many_numbers(const Device& device) {
  // The largest number of inputs of a kernel, with as many tensors, in every type.
  for (const Type type : {Type::f32, Type::f64, Type::f16}) {
    const int most = type == Type::f64 ? 8 : 16;
    Tensors x;
    Inputs v;
    for (int k = 0; k < 8; ++k) {
      x.push_back(
          laid_out({3, 5, 7}, k + 1, type, k % 2 == 0 ? Layout::offset : Layout::turned, device));
      v.push_back(x.back().to_cpu().values());
      if (type != Type::f16) x.back() = x.back().detach().requires_grad();
    }
    const auto f = [most](std::span<const Value> a) {
      Value out = a[0];
      for (int k = 0; k < most; ++k) out = out + a[at(k) % 8] * (0.1 * (k + 1));
      return out;
    };
    const Tensor y = map(f, {x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]});
    Numbers want = v[0], slope(8, 0);
    slope[0] = 1;
    for (int k = 0; k < most; ++k) {
      slope[at(k) % 8] += 0.1 * (k + 1);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += v[at(k) % 8][i] * 0.1 * (k + 1);
    }
    const std::string what = "numbers beside tensors of " + std::string(name(type));
    expect_near(y, want, type == Type::f64 ? 1e-13 : 5e-6, what);
    if (type == Type::f16) continue;
    sum(y).backward();
    for (std::size_t k = 0; k < 8; ++k)
      expect_near(x[k].grad(), Numbers(3 * 5 * 7, slope[k]), 1e-6, what + ", derivative");
  }
}

void check_batches(const Device& device) {
  for (const Type type : {Type::f32, Type::f16}) {
    const Tensor a = sample({33, 3, 3}, 8, type).to(device),
                 b = sample({33, 3, 5}, 9, type).to(device);
    const Numbers x = a.to_cpu().values(), y = b.to_cpu().values();
    Numbers want;
    for (std::ptrdiff_t k = 0; k < 33; ++k) {
      const Numbers one =
          reference::matmul({x.begin() + 9 * k, x.begin() + 9 * (k + 1)},
                            {y.begin() + 15 * k, y.begin() + 15 * (k + 1)}, 3, 3, 5);
      want.insert(want.end(), one.begin(), one.end());
    }
    expect_close(matmul(a, b), want, 1e-6, "batches of " + std::string(name(type)));
  }
}

}  // namespace topograd::ops::test
