// Adding and removing parameter arrays.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <Eigen/Core>
#include "../../frontend/problem.hpp"

#include "reference.hpp"

namespace topograd::test {
namespace {

using Numbers = std::vector<double>;

Numbers x_of(const Problem& problem) {
  Numbers x(problem.parameter_count());
  problem.read_x(x);
  return x;
}

std::vector<int> mask_of(const Problem& problem) {
  return {problem.constant_mask().begin(), problem.constant_mask().end()};
}

TEST(Parameters, ARemovedArrayLeavesTheOthersWhereTheyAre) {
  Numbers a = {1, 2}, c = {5, 6};
  auto b = std::make_unique<Numbers>(Numbers{3, 4});
  Problem problem;
  const Parameters x = problem.add_parameters(a), y = problem.add_parameters(*b),
                   z = problem.add_parameters(c);
  problem.add_residual(x[0] * z[1]);
  const Residual reads = problem.add_residual(x[1] * y[1]);
  EXPECT_EQ(error_of([&] { problem.remove(y); }),
            "invalid_argument: remove: expected an array that nothing reads, but residual #1 reads "
            "block 1 of it");
  problem.remove(reads);
  const Versions before = problem.versions();
  problem.remove(y);
  b = nullptr;
  EXPECT_GT(problem.versions().structure, before.structure);
  EXPECT_EQ(x_of(problem), (Numbers{1, 2, 0, 0, 5, 6}));
  EXPECT_EQ(mask_of(problem), (std::vector<int>{0, 0, 1, 1, 0, 0}));
  problem.write_x(Numbers{10, 20, 30, 40, 50, 60});
  EXPECT_EQ(a, (Numbers{10, 20}));
  EXPECT_EQ(c, (Numbers{50, 60}));
  EXPECT_EQ(residuals(problem), (Numbers{600}));
}

TEST(Parameters, PlacesAreTakenAgain) {
  Numbers a = {1, 2, 3, 4, 5, 6}, b = {7, 8}, c = {9}, d = {10, 11, 12}, e = {13, 14, 15, 16},
          f = e;
  Problem problem;
  const Parameters x = problem.add_parameters(a, 2), y = problem.add_parameters(b, 2);
  const Parameters last = problem.add_parameters(c);
  problem.set_constant(x, 0);
  problem.set_bounds(x, 1, 0, -1, 1);
  problem.set_manifold(x, 2, Manifold::sphere(2));
  problem.set_manifold(last, 0, Manifold::subset(1, {0}));
  problem.add_residual(last[0]);
  problem.remove(x);
  problem.remove(y);  // the gaps have one width and are adjacent
  EXPECT_EQ(problem.arrays().size(), 2u);
  EXPECT_EQ(problem.add_parameters(d).offset(), 9u);  // of another width
  const Parameters first = problem.add_parameters(e, 2);
  EXPECT_EQ(first.offset(), 0u);
  EXPECT_EQ(problem.add_parameters(a, 2).offset(), 12u);  // six do not fit into a gap of four
  EXPECT_EQ(problem.add_parameters(f, 2).offset(), 4u);
  EXPECT_EQ(mask_of(problem), std::vector<int>());
  EXPECT_EQ(problem.lower_bounds()[2], -std::numeric_limits<double>::infinity());
  for (std::size_t k = 0; k + 1 < problem.arrays().size(); ++k) {
    const ParameterArray& array = problem.arrays()[k];
    EXPECT_EQ(array.offset + array.blocks * array.width, problem.arrays()[k + 1].offset);
    for (std::size_t i = 0; i < array.blocks; ++i)
      EXPECT_EQ(problem.manifold(k, i) != nullptr, array.offset == last.offset());
  }
  EXPECT_EQ(x_of(problem),
            (Numbers{13, 14, 15, 16, 13, 14, 15, 16, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6}));
}

TEST(Parameters, ArraysOfOneMemoryAreRefused) {
  Numbers a(12), b(4);
  Problem problem;
  const Parameters x = problem.add_parameters(std::span(a).subspan(3, 6), 3);
  problem.add_parameters(b, 2);
  const auto add = [&](std::size_t first, std::size_t count, int width) {
    return error_of([&] { problem.add_parameters(a.data() + first, count, width); });
  };
  const std::string text = "invalid_argument: add_parameters: block ";
  EXPECT_EQ(add(3, 6, 3),
            text + "0 of the new array shares memory with block 0 of parameter array 0");
  EXPECT_EQ(add(0, 4, 2),
            text + "1 of the new array shares memory with block 0 of parameter array 0");
  EXPECT_EQ(add(8, 4, 1),
            text + "0 of the new array shares memory with block 1 of parameter array 0");
  EXPECT_EQ(add(5, 1, 1),
            text + "0 of the new array shares memory with block 0 of parameter array 0");
  EXPECT_EQ(add(0, 12, 1),
            text + "3 of the new array shares memory with block 0 of parameter array 0");
  EXPECT_EQ(error_of([&] { problem.add_parameters(b); }),
            text + "0 of the new array shares memory with block 0 of parameter array 1");
  EXPECT_EQ(problem.arrays().size(), 2u);
  EXPECT_EQ(problem.parameter_count(), 10u);
  EXPECT_EQ(add(0, 3, 3), "no error");
  EXPECT_EQ(add(9, 3, 3), "no error");
  problem.remove(x);
  EXPECT_EQ(add(4, 2, 1), "no error");
  EXPECT_EQ(add(5, 2, 1),
            text + "0 of the new array shares memory with block 1 of parameter array 4");
  Problem other;  // may refer to the same numbers
  other.add_parameters(a, 3);
}

/// The result of looking at x.
std::string look(const Problem& problem) {
  return error_of([&] { x_of(problem); });
}

TEST(Parameters, AContainerThatChangedIsAnError) {
  Numbers a = {1, 2, 3};
  Eigen::VectorXd b = Eigen::VectorXd::Zero(4);
  Problem problem;
  const Parameters x = problem.add_parameters(a, 3);
  problem.add_parameters(b, 2);
  EXPECT_EQ(look(problem), "no error");
  a.reserve(100);
  const std::string advice =
      "; a Problem keeps the pointer: fill containers before add_parameters, or remove the array, "
      "change the container and add it again";
  EXPECT_EQ(look(problem),
            "invalid_argument: parameter array 0: the container that add_parameters was given has "
            "changed since: it had 3 numbers and has 3 at another place" +
                advice);
  problem.remove(x);
  EXPECT_EQ(look(problem), "no error");
  problem.add_parameters(a, 3);
  EXPECT_EQ(look(problem), "no error");
  a.push_back(4);
  EXPECT_EQ(look(problem),
            "invalid_argument: parameter array 0: the container that add_parameters was given has "
            "changed since: it had 3 numbers and has 4 at the same place" +
                advice);
  a.pop_back();
  EXPECT_EQ(look(problem), "no error");
  b.resize(6);
  EXPECT_NE(look(problem).find("parameter array 1: the container"), std::string::npos);
}

TEST(Parameters, WhatIsNoContainerOfItsOwnIsNotLookedAt) {
  Numbers a(6), c(3);
  std::array<double, 3> b{};
  double plain[3] = {};
  Eigen::Map<Eigen::VectorXd> view(a.data() + 3, 3);
  Problem problem;
  problem.add_parameters(std::span(a).first(3), 3);
  problem.add_parameters(view, 3);
  problem.add_parameters(b, 3);
  problem.add_parameters(plain, 3);
  problem.add_parameters(c, 3);
  const Numbers others = std::move(a);  // its memory does not move
  EXPECT_EQ(look(problem), "no error");
  // A moved problem may have moved with its containers.
  const Problem moved = std::move(problem);
  const Numbers along = std::move(c);
  EXPECT_EQ(x_of(moved), Numbers(15));
}

TEST(Parameters, XEndsWhereTheLastArrayDoes) {
  Numbers a = {1, 2}, b = {3}, c = {4, 5};
  Problem problem;
  const Parameters x = problem.add_parameters(a), y = problem.add_parameters(b),
                   z = problem.add_parameters(c, 2);
  problem.set_constant(z, 0, 0b10);
  problem.remove(y);
  EXPECT_EQ(problem.parameter_count(), 5u);
  problem.remove(z);
  EXPECT_EQ(problem.parameter_count(), 2u);
  EXPECT_EQ(mask_of(problem), std::vector<int>());
  EXPECT_EQ(error_of([&] { problem.add_residual(y[0]); }),
            "invalid_argument: add_residual: parameter 2 is of an array that was removed, in "
            "residual #0");
  problem.remove(x);
  EXPECT_EQ(problem.parameter_count(), 0u);
  EXPECT_EQ(problem.add_parameters(c, 2).offset(), 0u);
}

TEST(Parameters, WhatReadsThemKeepsThem) {
  Numbers a(12, 1.0), b = {2};
  Problem problem;
  const Parameters x = problem.add_parameters(a, 3), y = problem.add_parameters(b);
  problem.add_energy(y[0]);
  const Term pulls[] = {problem.add_energy(x(3, 1), {.label = "pull"}),
                        problem.add_energy(x(2, 1), {.label = "pull"})};
  EXPECT_EQ(
      error_of([&] { problem.remove(x); }),
      "invalid_argument: remove: expected an array that nothing reads, but energy \"pull\" #1 "
      "reads block 3 of it, and 1 more do");
  problem.remove(pulls[0]);
  EXPECT_EQ(
      error_of([&] { problem.remove(x); }),
      "invalid_argument: remove: expected an array that nothing reads, but energy \"pull\" #1 "
      "reads block 2 of it");
  problem.remove(pulls[1]);
  problem.remove(x);
  EXPECT_EQ(problem.energy_count(), 1u);
}

/// A stroke that is drawn, erased, and drawn again, some hundred times.
TEST(Parameters, ALongLifeDoesNotGrow) {
  Numbers fixed = {0, 1};
  Problem problem;
  const Parameters held = problem.add_parameters(fixed);
  problem.add_residual(held[0] - held[1]);
  std::vector<std::pair<std::unique_ptr<Numbers>, Parameters>> strokes;
  for (std::size_t k = 0; k < 300; ++k) {
    auto values = std::make_unique<Numbers>(1 + 7 * k % 5, 1.0);
    const Parameters added = problem.add_parameters(*values);
    const Residual reads = problem.add_residual(added[0] - held[0]);
    strokes.emplace_back(std::move(values), added);
    problem.remove(reads);
    if (strokes.size() < 4) continue;
    problem.remove(strokes[k % 4].second);
    strokes.erase(strokes.begin() + static_cast<std::ptrdiff_t>(k % 4));
  }
  EXPECT_LE(problem.parameter_count(), 40u);
  EXPECT_EQ(problem.topology_count(), 1u);
  EXPECT_EQ(residuals(problem), (Numbers{-1}));
}

TEST(Parameters, MessagesCallArraysByTheirNames) {
  Numbers a = {1, 2, 3, 4}, b = {5}, c = {6};
  Problem problem;
  const Parameters points = problem.add_parameters(a, 2, "points");
  const Parameters tau = problem.add_parameters(b, 1, "tau"), unnamed = problem.add_parameters(c);
  const Data early = problem.add_data(Numbers{1}), t = problem.add_data(Numbers{1, 2, 3}, 1, "t"),
             late = problem.add_data(Numbers{4, 5}, 2);
  const std::vector<std::uint32_t> indices = {2};
  const struct {
    std::function<void()> call;
    std::string error;
  } rows[] = {
      {[&] { points.vec2(2); },
       "invalid_argument: vec2: block 2 of parameter \"points\" is out of range (the array has 2)"},
      {[&] { unnamed[1]; }, "invalid_argument: scalar: block 1 is out of range (the array has 1)"},
      {[&] { points(0, 2); },
       "invalid_argument: parameters: coordinate 2 of parameter \"points\" is out of range (blocks "
       "have 2)"},
      {[&] { points[0]; },
       "shape: scalar: expected blocks of 1, got an array with blocks of 2 (parameter \"points\")"},
      {[&] { t[3]; },
       "invalid_argument: data: block 3 of data \"t\" is out of range (the array has 3)"},
      {[&] { early[1]; }, "invalid_argument: data: block 1 is out of range (the array has 1)"},
      {[&] { late.vec2(1); }, "invalid_argument: vec2: block 1 is out of range (the array has 1)"},
      {[&] {
         problem.set(t, Numbers{1, 2});
       },
       "shape: set: expected 3 numbers of data \"t\", got 2"},
      {[&] { problem.set_constant(tau, 1); },
       "invalid_argument: set_constant: block 1 of parameter \"tau\" is out of range (the array "
       "has "
       "1)"},
      {[&] { problem.set_lower_bound(tau, 0, 0, std::nan("")); },
       "invalid_argument: set_lower_bound: the bound of parameter \"tau\" is nan"},
      {[&] { problem.set_manifold(points, Manifold::quaternion()); },
       "shape: set_manifold: quaternion is a manifold of blocks of 4, the array's have 2 "
       "(parameter "
       "\"points\")"},
      {[&] { problem.add_parameters(a); },
       "invalid_argument: add_parameters: block 0 of the new array shares memory with block 0 of "
       "parameter \"points\""},
      {[&] {
         problem.add_residuals(1, [&](Element e) { return points(e.index(0), 0); },
                               {.indices = indices});
       },
       "invalid_argument: add_residuals: index 0 of element 0 selects block 2 of parameter "
       "\"points\", out of range (the array has 2), in residual #0"},
      {[&] {
         problem.add_residuals(1, [&](Element e) { return tau[0] - t[e.index(0) + 1]; },
                               {.indices = indices});
       },
       "invalid_argument: add_residuals: index 0 of element 0 selects block 3 of data \"t\", out "
       "of "
       "range (the array has 3), in residual #0"},
  };
  for (const auto& row : rows) EXPECT_EQ(error_of(row.call), row.error);
  const Residual reads = problem.add_residual(tau[0]);
  EXPECT_EQ(error_of([&] { problem.remove(tau); }),
            "invalid_argument: remove: expected an array that nothing reads, but residual #0 reads "
            "block 0 of \"tau\"");
  problem.remove(reads);
  problem.remove(tau);
  EXPECT_EQ(problem.parameters(0).width(), 2);
  EXPECT_EQ(problem.arrays()[0].name, "points");
  EXPECT_EQ(problem.arrays()[1].name, "");
  EXPECT_EQ(error_of([&] { problem.parameters(1); }),
            "invalid_argument: parameters: there is no array 1 (the problem has 3)");
}

}  // namespace
}  // namespace topograd::test
