// Second derivatives of every op of the table against differences in long double, and at kinks; no
// code for any single op.
#include <gtest/gtest.h>
#include "../../autodiff/derivatives.hpp"
#include "../../autodiff/kinks.hpp"
#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "../support/random_program.hpp"

namespace topograd::test {
namespace {

using ir::Op;
using Operands = std::array<double, 3>;

constexpr int kDraws = 300;
constexpr int kLeastChecked = 50;
constexpr double kTolerance = 1e-7;
constexpr double kInf = std::numeric_limits<double>::infinity();

ir::Program single(Op op) {
  ir::Graph graph;
  std::array<ir::Id, 3> p;
  for (std::uint32_t k = 0; k < 3; ++k) p[k] = graph.leaf(Op::Parameter, k);
  const ir::Id y = graph.add(op, p[0], p[1], p[2]);
  return graph.extract(std::array{y}, {.parameters = 3});
}

/// Position of (i, j), i <= j, in a packed upper triangle of three rows.
std::size_t packed(int i, int j) { return static_cast<std::size_t>(i * 3 - i * (i + 1) / 2 + j); }

double draw_first(Op op, std::mt19937_64& random) {
  const ir::Domain& d = ir::info(op).domain;
  std::uniform_real_distribution<double> ordinary(-3, 3), exponent(-2, 2), share(0.05, 0.95);
  if (std::isfinite(d.min) && std::isfinite(d.max)) return d.min + (d.max - d.min) * share(random);
  if (std::isfinite(d.min)) return d.min + std::exp(exponent(random));
  return ordinary(random);
}

struct Reference {
  long double derivative = 0;
  bool smooth = false;
};

// Richardson's extrapolation of second differences of the op itself. Not smooth where the steps
// disagree.
Reference differences(Op op, const Operands& at, int i, int j) {
  const auto f = [&](long double di, long double dj) {
    std::array<long double, 3> x = {at[0], at[1], at[2]};
    x[i] += di;
    x[j] += dj;
    return ir::apply<long double>(op, x[0], x[1], x[2]);
  };
  const auto second = [&](long double h) {
    if (i == j) return (f(h, 0) - 2 * f(0, 0) + f(-h, 0)) / (h * h);
    return (f(h, h) - f(h, -h) - f(-h, h) + f(-h, -h)) / (4 * h * h);
  };
  constexpr long double kStep = 1e-3L;
  const long double wide = second(kStep), narrow = second(kStep / 2), finest = second(kStep / 4);
  const long double scale = 1 + std::fabs(narrow);
  Reference r{.derivative = (64 * finest - 20 * narrow + wide) / 45};
  r.smooth = std::isfinite(r.derivative) && std::fabs(wide - narrow) < 1e-2L * scale &&
             std::fabs(narrow - finest) < 3e-3L * scale;
  return r;
}

TEST(SecondOrder, AgreesWithDifferencesForEveryOp) {
  for (Op op : all_ops()) {
    const ir::Program f = single(op);
    const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
    const ir::Program H = autodiff::hessian(f, slots);
    const ir::Program Hp = autodiff::hvp(f, slots);
    std::mt19937_64 random(static_cast<unsigned>(op) + 7);
    std::uniform_real_distribution<double> ordinary(-3, 3);
    int checked = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      const Operands at = {draw_first(op, random), ordinary(random), ordinary(random)};
      const auto values = ir::evaluate<double>(H, {.parameters = at});
      for (int i = 0; i < ir::arity(op); ++i) {
        Operands direction = {};
        direction[i] = 1;
        const auto column = ir::evaluate<double>(Hp, {.parameters = at, .tangents = direction});
        for (int j = i; j < ir::arity(op); ++j) {
          const Reference expected = differences(op, at, i, j);
          if (!expected.smooth) continue;
          const auto want = static_cast<double>(expected.derivative);
          const double bound = kTolerance * (1 + std::fabs(want));
          const std::string where = std::string(ir::info(op).name) + "(" + std::to_string(at[0]) +
                                    ", " + std::to_string(at[1]) + ", " + std::to_string(at[2]) +
                                    ") by operands " + std::to_string(i) + ", " + std::to_string(j);
          EXPECT_NEAR(values[packed(i, j)], want, bound) << where;
          EXPECT_NEAR(column[j], want, bound) << where << ", hvp";
          ++checked;
        }
      }
    }
    EXPECT_GE(checked, kLeastChecked) << ir::info(op).name;
  }
}

struct Row {
  const char* body;   // nodes after x = %0 and y = %1; the last one is the energy
  double x, y;        // point
  double xx, xy, yy;  // expected
};

// %5: the length of (x, y).
#define LENGTH "%2 = square %0\n%3 = square %1\n%4 = add %2, %3\n%5 = sqrt %4\n"

const Row kRows[] = {
    // A kink has the mean of the second derivatives of both sides, or that of a select's side.
    {"%2 = abs %0", 0, 0, 0, 0, 0},
    {"%2 = relu %0", 0, 0, 0, 0, 0},
    {"%2 = min %0, %1", 3, 3, 0, 0, 0},
    {"%2 = square %0\n%3 = max %2, %1", 2, 4, 1, 0, 0},
    {"%2 = square %0\n%3 = max %1, %2", 2, 4, 1, 0, 0},
    {"%2 = square %0\n%3 = abs %2", 0, 0, 2, 0, 0},  // the square itself
    {"%2 = abs %0\n%3 = mul %0, %2", 0, 0, 0, 0, 0},
    {"%2 = max %0, %1\n%3 = square %2", 3, 3, 1, 0, 1},
    {"%2 = max %0, %1\n%3 = square %2\n%4 = min %0, %1\n%5 = square %4\n%6 = add %3, %5", 3, 3, 2,
     0, 2},
    {"%2 = literal 0\n%3 = max %0, %2\n%4 = square %3\n%5 = min %0, %2\n%6 = square %5\n"
     "%7 = add %4, %6",
     0, 0, 2, 0, 0},
    {"%2 = max %0, %1\n%3 = min %0, %1\n%4 = mul %2, %3", 3, 3, 0, 1, 0},  // x y
    // Functions that are smooth, written with kinks: softplus, its square, log(exp(x) + exp(y)).
    {"%2 = literal 0\n%3 = max %0, %2\n%4 = abs %0\n%5 = neg %4\n%6 = exp %5\n%7 = log1p %6\n"
     "%8 = add %3, %7",
     0, 0, 0.25, 0, 0},
    {"%2 = literal 0\n%3 = max %0, %2\n%4 = abs %0\n%5 = neg %4\n%6 = exp %5\n%7 = log1p %6\n"
     "%8 = add %3, %7\n%9 = square %8",
     0, 0, 0.84657359027997265, 0, 0},  // (1 + log 2) / 2
    {"%2 = max %0, %1\n%3 = sub %1, %0\n%4 = abs %3\n%5 = neg %4\n%6 = exp %5\n%7 = log1p %6\n"
     "%8 = add %2, %7",
     1.5, 1.5, 0.25, -0.25, 0.25},
    {"%2 = max %0, %1\n%3 = sub %0, %1\n%4 = abs %3\n%5 = neg %4\n%6 = exp %5\n%7 = log1p %6\n"
     "%8 = add %2, %7",
     1.5, 1.5, 0.25, -0.25, 0.25},
    {"%2 = literal 0\n%3 = neg %1\n%4 = max %3, %2\n%5 = abs %1\n%6 = neg %5\n%7 = exp %6\n"
     "%8 = log1p %7\n%9 = add %4, %8",
     1, 0, 0, 0, 0.25},
    {"%2 = max %0, %1\n%3 = sub %0, %2\n%4 = exp %3\n%5 = sub %1, %2\n%6 = exp %5\n"
     "%7 = add %4, %6\n%8 = log %7\n%9 = add %2, %8",
     -7, -7, 0.25, -0.25, 0.25},
    // Even functions of a magnitude or a length, at 0.
    {"%2 = abs %0\n%3 = square %2", 0, 0, 2, 0, 0},
    {"%2 = abs %0\n%3 = cosh %2", 0, 0, 1, 0, 0},
    {"%2 = square %0\n%3 = sqrt %2\n%4 = cos %3", 0, 0, -1, 0, 0},
    {"%2 = square %0\n%3 = square %2\n%4 = sqrt %3", 0, 0, 2, 0, 0},
    {LENGTH "%6 = square %5", 0, 0, 2, 0, 2},
    {LENGTH "%6 = mul %5, %5", 0, 0, 2, 0, 2},
    {LENGTH "%6 = literal 2\n%7 = pow %5, %6", 0, 0, 2, 0, 2},
    {LENGTH "%6 = cos %5", 0, 0, -1, 0, -1},
    {LENGTH "%6 = cosh %5", 0, 0, 1, 0, 1},
    {LENGTH "%6 = square %5\n%7 = neg %6\n%8 = exp %7", 0, 0, -2, 0, -2},
    {LENGTH "%6 = square %5\n%7 = log1p %6", 0, 0, 2, 0, 2},
    {LENGTH "%6 = sin %5\n%7 = mul %5, %6", 0, 0, 2, 0, 2},
    {LENGTH "%6 = cube %5", 0, 0, 0, 0, 0},
    {LENGTH "%6 = square %5\n%7 = literal 1\n%8 = add %6, %7\n%9 = sqrt %8", 0, 0, 1, 0, 1},
    {LENGTH "%6 = literal 1\n%7 = sub %5, %6\n%8 = exp %7\n%9 = sub %8, %5", 0, 0,
     0.36787944117144233, 0, 0.36787944117144233},  // along rays
    {LENGTH "%6 = square %5\n%7 = square %6\n%8 = add %7, %6\n%9 = sqrt %8\n%10 = cosh %9", 0, 0, 1,
     0, 1},  // a length of lengths
    {LENGTH "%6 = square %5", 3, 4, 2, 0, 2},
    {LENGTH "%6 = cos %5", 3, 4, 0.020623920390120287, -0.2282145793900099, -0.11250125092071885},
    {"%2 = hypot %0, %1\n%3 = square %2", 0, 0, 2, 0, 2},
    {"%2 = hypot %0, %1\n%3 = cosh %2", 0, 0, 1, 0, 1},
    {LENGTH "%6 = neg %5", 0, 0, 0, 0, 0},
    {"%2 = floor %0\n%3 = mul %2, %0", 1, 0, 0, 0, 0},
    {"%2 = hypot %0, %1", 0, 0, 0, 0, 0},
    {"%2 = hypot %0, %1", 0, -2, 0.5, 0, 0},
    {"%2 = atan2 %0, %1", 0, 0, 0, 0, 0},
    {"%2 = literal 2\n%3 = elu %0, %2", 0, 0, 2, 0, 0},  // 2 exp(0): the side up to 0
    {"%2 = softplus %0", 0, 0, 0.25, 0, 0},
    {"%2 = gelu %0", 0, 0, 0.79788456080286536, 0, 0},  // 2 / sqrt(2 pi)
    {"%2 = silu %0", 0, 0, 0.5, 0, 0},
    // Poles keep the mathematical value.
    {"%2 = sqrt %0", 0, 0, -kInf, 0, 0},
    {"%2 = log %0", 0, 0, -kInf, 0, 0},
    {"%2 = pow %0, %1", 2, 0, 0, 0.5, std::log(2.0) * std::log(2.0)},
    {"%2 = literal 2\n%3 = pow %0, %2", 0, 0, 2, 0, 0},
    {"%2 = literal 3\n%3 = pow %0, %2", 0, 0, 0, 0, 0},
    {"%2 = cube %0", 0, 0, 0, 0, 0},
    // Sides that are not taken, and saturated functions.
    {"%2 = literal 0\n%3 = gt %0, %2\n%4 = sqrt %0\n%5 = select %3, %4, %2", -1, 0, 0, 0, 0},
    {"%2 = literal 0\n%3 = gt %0, %2\n%4 = sqrt %0\n%5 = select %3, %4, %2", 0, 0, 0, 0, 0},
    {"%2 = literal 0\n%3 = gt %0, %2\n%4 = sqrt %0\n%5 = select %3, %4, %2", 4, 0, -1.0 / 32, 0, 0},
    {"%2 = literal 0\n%3 = gt %0, %2\n%4 = div %1, %0\n%5 = select %3, %4, %1", 0, 3, 0, 0, 0},
    {"%2 = square %0\n%3 = square %1\n%4 = add %2, %3\n%5 = sqrt %4\n%6 = literal 0\n%7 = gt %4, "
     "%6\n%8 = select %7, %5, %6",
     0, 0, 0, 0, 0},
    {"%2 = literal 1\n%3 = lt %0, %2\n%4 = exp %0\n%5 = mul %4, %1\n%6 = select %3, %5, %1", 1000,
     3, 0, 0, 0},
    {"%2 = sigmoid %0", -1000, 0, 0, 0, 0},
    {"%2 = sigmoid %0", 1000, 0, 0, 0, 0},
    {"%2 = silu %0", -1000, 0, 0, 0, 0},
    {"%2 = softplus %0", 1000, 0, 0, 0, 0},
    {"%2 = softplus %0", -1000, 0, 0, 0, 0},
    {"%2 = tanh %0", 1000, 0, 0, 0, 0},
    // Products of derivatives that may both be infinite keep theirs where one of them is 0: the
    // gradient of √(1 + x²) beside a side of a select that is not taken.
    {"%2 = square %0\n%3 = exp %2\n%4 = literal 2\n%5 = gt %1, %4\n%6 = select %5, %3, %2\n"
     "%7 = literal 1\n%8 = add %6, %7\n%9 = sqrt %8",
     0, 1, 1, 0, 0},
};

ir::Program program_of(const Row& row) {
  const std::string body = row.body;
  const std::size_t last = body.rfind("\n%") == body.npos ? 0 : body.rfind("\n%") + 1;
  const std::string result = body.substr(last, body.find(' ', last) - last);
  return ir::parse(
      "program parameters=2 data=0 uniforms=0 seeds=0 {\n%0 = parameter 0\n"
      "%1 = parameter 1\n" +
      body + "\nreturn " + result + "\n}");
}

TEST(SecondOrder, FollowsTheRulesAtKinks) {
  for (const Row& row : kRows) {
    const ir::Program f = program_of(row);
    const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
    const std::vector<double> at = {row.x, row.y};
    const std::string where =
        std::string(row.body) + " at " + std::to_string(row.x) + ", " + std::to_string(row.y);
    const auto H = ir::evaluate<double>(autodiff::hessian(f, slots), {.parameters = at});
    const double expected[] = {row.xx, row.xy, row.yy};
    for (int k = 0; k < 3; ++k) {
      if (std::isinf(expected[k])) {
        EXPECT_EQ(H[k], expected[k]) << where << ", entry " << k;
      } else {
        EXPECT_NEAR(H[k], expected[k], 1e-14) << where << ", entry " << k;
      }
    }
    const ir::Program Hp = autodiff::hvp(f, slots);
    const std::vector<double> unit = {1, 0}, zeros = {0, 0};
    const auto column = ir::evaluate<double>(Hp, {.parameters = at, .tangents = unit});
    for (int k = 0; k < 2; ++k) EXPECT_EQ(column[k], H[k]) << where << ", hvp " << k;
    for (const double v : ir::evaluate<double>(Hp, {.parameters = at, .tangents = zeros}))
      EXPECT_EQ(v, 0) << where << ", along 0";
  }
}

struct KinkRow {
  const char* body;  // as above
  double x, y;
  int corners, lengths, falling;  // expected: kinks of all kinds, of lengths alone, falling ones
};

const KinkRow kKinkRows[] = {
    {LENGTH "%6 = neg %5", 0, 0, 0, 0, 0},
    {LENGTH "%6 = neg %5", 0, 1e-100, -1, -1, -1},
    {LENGTH "%6 = square %5", 0, 0, -1, -1, -1},
    {LENGTH "%6 = cosh %5", 0, 0, -1, -1, -1},
    {LENGTH "%6 = exp %5", 0, 0, 0, 0, -1},
    {LENGTH "%6 = literal 1.5\n%7 = pow %5, %6", 0, 0, 0, 0, -1},  // curvature 0.75 L^-0.5
    {LENGTH "%6 = literal 1.5\n%7 = pow %5, %6", 1, 0, -1, -1, -1},
    {LENGTH "%6 = mul %0, %5", 0, 0, -1, -1, -1},
    {"%2 = hypot %0, %1", 0, 0, 0, 0, -1},
    {"%2 = abs %0", 0, 0, 0, -1, -1},
    {"%2 = abs %0\n%3 = square %2", 0, 0, -1, -1, -1},
    {"%2 = max %0, %1", 3, 3, 0, -1, -1},
    {"%2 = max %0, %1", 3, 4, -1, -1, -1},
    {"%2 = max %0, %1\n%3 = min %0, %1\n%4 = add %2, %3", 3, 3, -1, -1, -1},
    {"%2 = literal 0\n%3 = max %1, %2\n%4 = neg %1\n%5 = max %4, %2\n%6 = sub %3, %5\n%7 = mul %0, "
     "%6",
     7, 0, -1, -1, -1},
    {"%2 = literal 0\n%3 = gt %0, %2\n%4 = abs %1\n%5 = select %3, %4, %0", -1, 0, -1, -1, -1},
    {"%2 = square %0", 0, 0, -1, -1, -1},
    {"%2 = abs %0\n%3 = neg %2", 0, 0, 0, -1, 0},
    {"%2 = min %0, %1", 3, 3, 0, -1, 0},
    {"%2 = min %0, %1", 3, 4, -1, -1, -1},
    {"%2 = max %0, %1\n%3 = square %2", -3, -3, 0, -1, 0},
    {"%2 = hypot %0, %1\n%3 = neg %2", 0, 0, 0, 0, 0}};

TEST(SecondOrder, KinksAreFound) {
  for (const KinkRow& row : kKinkRows) {
    const ir::Program f = program_of({row.body, row.x, row.y, 0, 0, 0});
    const std::vector<double> at = {row.x, row.y};
    const std::pair<autodiff::KinksSought, int> expected[] = {
        {autodiff::KinksSought::all, row.corners},
        {autodiff::KinksSought::lengths, row.lengths},
        {autodiff::KinksSought::falling, row.falling}};
    for (const auto& [sought, kink] : expected) {
      const autodiff::KinkSearch search =
          autodiff::search_for_kinks(f, autodiff::all_slots(f), sought);
      const double found = ir::evaluate<double>(search.program, {.parameters = at})[0];
      EXPECT_EQ(found, kink) << row.body << " at " << row.x << ", " << row.y << ", sought "
                             << static_cast<int>(sought);
      EXPECT_LT(found, static_cast<double>(search.ops.size()));
    }
  }
}

bool tame(const std::vector<double>& values) {
  for (const double v : values)
    if (!(std::fabs(v) < 1e6)) return false;
  return true;
}

TEST(SecondOrder, ProductIsTheMatrixTimesTheVectorInRandomPrograms) {
  int checked = 0;
  for (std::uint64_t seed = 0; seed < 300; seed += kStride) {
    const ir::Program f = random_program(seed, {.operations = 15, .ops = smooth_ops()});
    const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
    if (f.outputs.size() != 1) continue;
    const ir::Program E = autodiff::cost(f);
    const Point at = random_point(seed, {3, 2, 1, 0});
    Point along = at;
    along.tangents = {0.3, -1.2, 0.7};
    const auto H = ir::evaluate<double>(autodiff::hessian(E, slots), at.inputs());
    const auto Hp = ir::evaluate<double>(autodiff::hvp(E, slots), along.inputs());
    if (!tame(H) || !tame(Hp)) continue;
    for (int i = 0; i < 3; ++i) {
      double sum = 0, size = 0;
      for (int j = 0; j < 3; ++j) {
        const double term = H[packed(std::min(i, j), std::max(i, j))] * along.tangents[j];
        sum += term;
        size += std::fabs(term);
      }
      EXPECT_NEAR(Hp[i], sum, 1e-8 * (1 + size)) << "seed " << seed << ", row " << i;
    }
    ++checked;
  }
  EXPECT_GE(checked, 36 / static_cast<int>(kStride));
}

// Sums of |x_k|^1.5, whose second derivative is infinite at 0, beside a long smooth sum: each of
// the kinks is found.
TEST(SecondOrder, KinksOfALongProgramAreFound) {
  constexpr std::uint32_t kKinks = 12;
  ir::Graph graph;
  ir::Id sum = graph.leaf(ir::Op::Parameter, kKinks);
  for (int k = 0; k < 800; ++k)
    sum = graph.add(ir::Op::Add, graph.add(ir::Op::Sin, sum), graph.literal(0.1 * k));
  for (std::uint32_t k = 0; k < kKinks; ++k)
    sum = graph.add(ir::Op::Add, sum,
                    graph.add(ir::Op::Pow, graph.add(ir::Op::Abs, graph.leaf(ir::Op::Parameter, k)),
                              graph.literal(1.5)));
  const ir::Program f = graph.extract(std::array{sum}, {.parameters = kKinks + 1});
  const autodiff::KinkSearch search =
      autodiff::search_for_kinks(f, autodiff::all_slots(f), autodiff::KinksSought::lengths);
  std::vector<double> at(kKinks + 1, 1.0);
  EXPECT_EQ(ir::evaluate<double>(search.program, {.parameters = at})[0], -1);
  for (std::uint32_t k = 0; k < kKinks; ++k) {
    at[k] = 0;
    EXPECT_GE(ir::evaluate<double>(search.program, {.parameters = at})[0], 0) << k;
    at[k] = 1;
  }
}

TEST(SecondOrder, TheDiagonalIsThatOfTheBlock) {
  // Rows x y and x + z² at (2, 3, 5): columns (3, 1), (2, 0), (0, 10) of the Jacobian.
  const ir::Program f = ir::parse(
      "program parameters=3 data=0 uniforms=0 seeds=0 {\n%0 = parameter 0\n%1 = parameter 1\n"
      "%2 = parameter 2\n%3 = square %2\n%4 = mul %0, %1\n%5 = add %0, %3\nreturn %4, %5\n}");
  const std::vector<double> at = {2, 3, 5};
  const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
  EXPECT_EQ(ir::evaluate<double>(autodiff::diagonal(f, slots), {.parameters = at}),
            (std::vector<double>{10, 4, 100}));
  EXPECT_EQ(ir::evaluate<double>(autodiff::block(f, slots), {.parameters = at}),
            (std::vector<double>{10, 6, 10, 4, 0, 100}));
}

TEST(SecondOrder, SlotsChooseRowsAndColumns) {
  // x y z² at (2, 3, 5): ∂xz = 2 y z, ∂zz = 2 x y.
  const ir::Program f = ir::parse(
      "program parameters=3 data=0 uniforms=0 seeds=0 {\n%0 = parameter 0\n%1 = parameter 1\n"
      "%2 = parameter 2\n%3 = square %2\n%4 = mul %0, %1\n%5 = mul %4, %3\nreturn %5\n}");
  const std::vector<double> at = {2, 3, 5}, along = {0, 1, 0};
  const std::vector<std::uint32_t> slots = {2, 0};
  EXPECT_EQ(ir::evaluate<double>(autodiff::hessian(f, slots), {.parameters = at}),
            (std::vector<double>{12, 30, 0}));
  EXPECT_EQ(ir::evaluate<double>(autodiff::hvp(f, slots), {.parameters = at, .tangents = along}),
            (std::vector<double>{20, 25}));
}

TEST(SecondOrder, RefusesSeveralOutputs) {
  const ir::Program f = ir::parse(
      "program parameters=1 data=0 uniforms=0 seeds=0 {\n%0 = parameter 0\n%1 = square %0\n"
      "return %0, %1\n}");
  try {
    autodiff::hessian(f, autodiff::all_slots(f));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Shape);
    EXPECT_STREQ(error.what(), "differentiate: expected a program with one output, got 2");
  }
}

}  // namespace
}  // namespace topograd::test
