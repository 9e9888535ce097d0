// Every tensor operation at odd sizes, on offset and transposed views, against plain loops, on one
// device.
#include "operation_cases.hpp"
#include "tensor_cases.hpp"
#include "tensor_references.hpp"

#include "../../../ops/tensor/operations.hpp"

#include <algorithm>

namespace topograd::ops::test {
namespace {

std::size_t at(std::int64_t k) { return static_cast<std::size_t>(k); }

const std::vector<OperationCase>& rows_and_losses() {
  const auto rows = [](std::int64_t n) { return std::vector<Shape>{{n > 1000 ? 1 : 3, n}}; };
  const auto columns = [](std::int64_t n) { return std::vector<Shape>{{n, 3}}; };
  const auto pair = [](std::int64_t n) { return std::vector<Shape>{{1, n}, {1, n}}; };
  static const std::vector<OperationCase> all = {
      {"softmax", rows, [](const Tensors& x, O o) { return softmax(x[0], -1, o); },
       [](const Inputs& x, std::int64_t n) { return reference::softmax(x[0], n, 1); }, 3e-6, 1e-13,
       0, 1'000'003, true},
      {"softmax of columns", columns, [](const Tensors& x, O o) { return softmax(x[0], 0, o); },
       [](const Inputs& x, std::int64_t n) { return reference::softmax(x[0], n, 3); }, 3e-6, 1e-13,
       1, 257},
      {"log_softmax", rows, [](const Tensors& x, O o) { return log_softmax(x[0], -1, o); },
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
       [](const Tensors& x, O o) {
         return layer_norm(x[0], x[1].reshape({-1}), x[2].reshape({-1}), 1e-5, o);
       },
       [](const Inputs& x, std::int64_t n) { return reference::layer_norm(x[0], x[1], x[2], n); },
       2e-5, 1e-12},
      {"mse_loss", pair, [](const Tensors& x, O o) { return mse_loss(x[0], x[1], o); },
       [](const Inputs& x, std::int64_t) {
         return reference::mean(x, [](double u, double v) { return (u - v) * (u - v); });
       }},
      {"mae_loss", pair, [](const Tensors& x, O o) { return mae_loss(x[0], x[1], o); },
       [](const Inputs& x, std::int64_t) {
         return reference::mean(x, [](double u, double v) { return std::abs(u - v); });
       }},
      {"huber_loss", pair, [](const Tensors& x, O o) { return huber_loss(x[0], x[1], 0.7, o); },
       [](const Inputs& x, std::int64_t) {
         return reference::mean(x, [](double u, double v) {
           const double e = std::abs(u - v);
           return e <= 0.7 ? e * e / 2 : 0.7 * (e - 0.35);
         });
       }},
      {"tukey_loss", pair, [](const Tensors& x, O o) { return tukey_loss(x[0], x[1], 1.5, o); },
       [](const Inputs& x, std::int64_t) {
         return reference::mean(x, [](double u, double v) {
           const double t = (u - v) / 1.5, inside = std::max(0.0, 1 - t * t);
           return 0.375 * (1 - inside * inside * inside);
         });
       }},
      {"binary_cross_entropy", pair,
       [](const Tensors& x, O o) { return binary_cross_entropy(x[0], x[1], o); },
       [](const Inputs& x, std::int64_t) {
         return reference::mean(x, [](double u, double v) {
           return std::max(u, 0.0) - u * v + std::log1p(std::exp(-std::abs(u)));
         });
       }},
      {"cross_entropy",
       [](std::int64_t n) {
         return std::vector<Shape>{{n, 5}, {n, 5}};
       },
       [](const Tensors& x, O o) { return cross_entropy(x[0], x[1], o); },
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

const std::vector<OperationCase>& axes() {
  static const std::vector<OperationCase> all = [] {
    struct Along {
      const char* name;
      Tensor (*run)(const Tensor&, const Axes&, bool, O);
      reference::Fold fold;
      double bound;  ///< of f32
    };
    const Along folds[] = {{"sum", sum, reference::Fold::sum, 1e-5},
                           {"mean", mean, reference::Fold::mean, 1e-5},
                           {"variance", variance, reference::Fold::variance, 1e-5},
                           {"max", max, reference::Fold::max, 0},
                           {"min", min, reference::Fold::min, 0}};
    std::vector<OperationCase> out;
    for (const Along& a : folds) {
      const bool exact = a.bound == 0;
      for (const int axis : {0, 1, 2}) {
        const auto shape = [axis](std::int64_t n) {
          Shape s = n > 1000 ? Shape{1, 1, 1} : Shape{3, 2, 5};
          s[at(axis)] = n;
          return s;
        };
        out.push_back({a.name, [shape](std::int64_t n) { return std::vector<Shape>{shape(n)}; },
                       [a, axis](const Tensors& x, O o) { return a.run(x[0], {axis}, false, o); },
                       [a, axis, shape](const Inputs& x, std::int64_t n) {
                         return reference::fold(x[0], shape(n), at(axis), a.fold);
                       },
                       a.bound, exact ? 0 : 1e-13, a.fold == reference::Fold::sum ? 0 : 1,
                       1'000'003, a.fold == reference::Fold::sum});
      }
    }
    for (const int axis : {0, 1}) {
      for (const bool largest : {true, false}) {
        const auto shape = [](std::int64_t n) { return Shape{n > 1000 ? 1 : 3, n}; };
        out.push_back({largest ? "argmax" : "argmin",
                       [shape](std::int64_t n) { return std::vector<Shape>{shape(n)}; },
                       [largest, axis](const Tensors& x, O o) {
                         return largest ? argmax(x[0], axis, o) : argmin(x[0], axis, o);
                       },
                       [largest, axis, shape](const Inputs& x, std::int64_t n) {
                         return reference::fold(
                             x[0], shape(n), at(axis),
                             largest ? reference::Fold::argmax : reference::Fold::argmin);
                       },
                       0, 0});
      }
    }
    return out;
  }();
  return all;
}

/// Fewer rows, because the software device is slow.
std::int64_t fewer(std::int64_t n) { return n > 1000 ? n / 33 : n; }

const std::vector<OperationCase>& products() {
  static const std::vector<OperationCase> all = {
      {"matmul of many rows",
       [](std::int64_t n) {
         return std::vector<Shape>{{fewer(n), 3}, {3, 2}};
       },
       [](const Tensors& x, O o) { return matmul(x[0], x[1], o); },
       [](const Inputs& x, std::int64_t n) {
         return reference::matmul(x[0], x[1], fewer(n), 3, 2);
       },
       4e-6, 1e-14, 0, 1'000'003, true},
      {"matmul of many terms",
       [](std::int64_t n) {
         return std::vector<Shape>{{5, n}, {n, 33}};
       },
       [](const Tensors& x, O o) { return matmul(x[0], x[1], o); },
       [](const Inputs& x, std::int64_t n) { return reference::matmul(x[0], x[1], 5, n, 33); },
       2e-5, 1e-13, 0, 257, true},
      // The largest number that loops of the software device reach.
      {"matmul of very many terms",
       [](std::int64_t n) {
         return std::vector<Shape>{{2, n / 17}, {n / 17, 3}};
       },
       [](const Tensors& x, O o) { return matmul(x[0], x[1], o); },
       [](const Inputs& x, std::int64_t n) { return reference::matmul(x[0], x[1], 2, n / 17, 3); },
       1e-4, 1e-12, 1000},
      {"matmul of many columns",
       [](std::int64_t n) {
         return std::vector<Shape>{{33, 5}, {5, fewer(n)}};
       },
       [](const Tensors& x, O o) { return matmul(x[0], x[1], o); },
       [](const Inputs& x, std::int64_t n) {
         return reference::matmul(x[0], x[1], 33, 5, fewer(n));
       },
       5e-6, 1e-14, 0, 1'000'003, true},
      {"cosine_similarity",
       [](std::int64_t n) {
         return std::vector<Shape>{{2, n}, {5, n}};
       },
       [](const Tensors& x, O o) { return cosine_similarity(x[0], x[1], o); },
       [](const Inputs& x, std::int64_t n) { return reference::cosines(x[0], x[1], n); }, 2e-5,
       1e-13},
      {"cosine_similarity of many",
       [](std::int64_t n) {
         return std::vector<Shape>{{2, 7}, {fewer(n), 7}};
       },
       [](const Tensors& x, O o) { return cosine_similarity(x[0], x[1], o); },
       [](const Inputs& x, std::int64_t) { return reference::cosines(x[0], x[1], 7); }, 2e-6, 1e-13,
       1, 1'000'003, true},
      {"top_k",
       [](std::int64_t n) {
         return std::vector<Shape>{{2, n}};
       },
       [](const Tensors& x, O o) {
         return top_k(x[0], std::min<std::int64_t>(x[0].size(1), 4), o).values;
       },
       [](const Inputs& x, std::int64_t n) { return reference::largest(x[0], n, 4); }, 0, 0, 1,
       1'000'003, true},
      {"conv2d",
       [](std::int64_t n) {
         return std::vector<Shape>{{1, 2, n > 1000 ? n / 10 : n, 5}, {3, 2, 3, 2}};
       },
       [](const Tensors& x, O o) { return conv2d(x[0], x[1], {.padding = 1}, o); },
       [](const Inputs& x, std::int64_t) { return reference::conv2d(x[0], x[1]); }, 5e-6, 1e-13, 1,
       1'000'003, true},
      {"filter2d",
       [](std::int64_t n) {
         return std::vector<Shape>{{n > 1000 ? n / 5 : n, 5}};
       },
       [](const Tensors& x, O o) { return filter2d(x[0], reference::kFilter, 3, 3, nullptr, o); },
       [](const Inputs& x, std::int64_t) { return reference::filter2d(x[0]); }, 5e-6, 1e-13, 1,
       1'000'003, true},
      {"max_pool2d",
       [](std::int64_t n) {
         return std::vector<Shape>{{n > 1000 ? n / 9 : n, 9}};
       },
       [](const Tensors& x, O o) { return max_pool2d(x[0], 3, {.stride = 2, .padding = 1}, o); },
       [](const Inputs& x, std::int64_t) { return reference::pool(x[0], true); }, 0, 0, 1,
       1'000'003, true},
      {"avg_pool2d",
       [](std::int64_t n) {
         return std::vector<Shape>{{n > 1000 ? n / 9 : n, 9}};
       },
       [](const Tensors& x, O o) { return avg_pool2d(x[0], 3, {.stride = 2, .padding = 1}, o); },
       [](const Inputs& x, std::int64_t) { return reference::pool(x[0], false); }},
  };
  return all;
}

const std::vector<OperationCase>& parts() {
  const auto table = [](std::int64_t n) { return std::vector<Shape>{{n, 3}, {2, 4}}; };
  /// Rows of x by index; rows that do not exist are 0.
  const auto rows = [](const Inputs& x, std::int64_t n) {
    Numbers out;
    for (const double index : x[1])
      for (std::size_t k = 0; k < 3; ++k)
        out.push_back(index >= 0 && index < static_cast<double>(n)
                          ? x[0][3 * static_cast<std::size_t>(index) + k]
                          : 0);
    return out;
  };
  static const std::vector<OperationCase> all = {
      {"concat",
       [](std::int64_t n) {
         return std::vector<Shape>{{n, 5}, {3, 5}};
       },
       [](const Tensors& x, O o) {
         return concat({x[0], x[1]}, 0, o);
       },
       [](const Inputs& x, std::int64_t) {
         Numbers out = x[0];
         out.insert(out.end(), x[1].begin(), x[1].end());
         return out;
       },
       0, 0, 1, 1'000'003, true},
      {"stack",
       [](std::int64_t n) {
         return std::vector<Shape>{{1, n}, {1, n}};
       },
       [](const Tensors& x, O o) {
         return stack({x[0], x[1]}, -1, o);
       },
       [](const Inputs& x, std::int64_t n) {
         Numbers out;
         for (std::size_t k = 0; k < at(n); ++k) out.insert(out.end(), {x[0][k], x[1][k]});
         return out;
       },
       0, 0, 1, 1'000'003, true},
      {"take", table,
       [](const Tensors& x, O o) { return take(x[0], x[1], 0, IndexCheck::none, o); }, rows, 0, 0,
       1, 257, true},
      {"embedding", table,
       [](const Tensors& x, O o) { return embedding(x[0], x[1], IndexCheck::none, o); }, rows, 0, 0,
       1, 257},
  };
  return all;
}

}  // namespace

std::vector<OperationCase> operation_cases() {
  std::vector<OperationCase> out;
  for (const auto& cases : {rows_and_losses(), axes(), products(), parts(), transforms()})
    out.insert(out.end(), cases.begin(), cases.end());
  return out;
}

void check_rows_and_losses_of_views(const Device& device) {
  check_operation_cases(rows_and_losses(), device);
}
void check_axes_of_views(const Device& device) { check_operation_cases(axes(), device); }
void check_parts_of_views(const Device& device) { check_operation_cases(parts(), device, true); }
void check_products_of_views(const Device& device) {
  check_operation_cases(products(), device, true);
}

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
