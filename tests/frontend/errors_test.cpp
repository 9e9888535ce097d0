// Callers' mistakes with their messages; a failed call changes nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "reference.hpp"

namespace topograd::test {
namespace {

/// Objects for every row of the table.
struct Setting {
  std::vector<double> a = std::vector<double>(12, 1.0), b = {1, 2, 3}, c = std::vector<double>(18);
  Problem problem, other;
  Parameters x = problem.add_parameters(a, 3), s = problem.add_parameters(b);
  Parameters foreign = other.add_parameters(c);
  Data data = problem.add_data(std::vector<double>{1, 2, 3, 4}, 2);
  Data foreign_data = other.add_data(std::vector<double>{1, 2, 3});
  Uniform uniform = problem.add_uniform(1.0), foreign_uniform = other.add_uniform(2.0);
  Residual residual = problem.add_residual(s[0]), foreign_residual = other.add_residual(foreign[0]);
  std::vector<std::uint32_t> indices = {0, 1, 2, 2, 1, 9};
  std::vector<std::uint32_t> offsets = {0, 2, 6}, descending = {0, 4, 2}, few = {0, 6},
                             short_of = {0, 2, 4};
};

struct Mistake {
  const char* error;
  std::function<void(Setting&)> call;
};

const Mistake kMistakes[] = {
    // Arrays.
    {"invalid_argument: add_parameters: expected at least one number, got none",
     [](Setting& t) { t.problem.add_parameters(std::span<double>()); }},
    {"shape: add_parameters: expected blocks of 5, got 12 numbers",
     [](Setting& t) { t.problem.add_parameters(t.a, 5); }},
    {"shape: add_parameters: expected blocks of 0, got 12 numbers",
     [](Setting& t) { t.problem.add_parameters(t.a, 0); }},
    {"invalid_argument: add_parameters: expected fewer than 2^32 - 1 numbers in all arrays "
     "together",
     [](Setting& t) { t.problem.add_parameters(t.a.data(), std::size_t{1} << 32); }},
    {"invalid_argument: add_data: expected at least one number, got none",
     [](Setting& t) { t.problem.add_data({}); }},
    {"shape: add_data: expected blocks of 7, got 12 numbers",
     [](Setting& t) { t.problem.add_data(t.a, 7); }},
    // Reads.
    {"shape: vec3: expected blocks of 3, got an array with blocks of 1",
     [](Setting& t) { (void)t.s.vec3(0); }},
    {"shape: scalar: expected blocks of 1, got an array with blocks of 3",
     [](Setting& t) { (void)t.x[0]; }},
    {"shape: vec2: expected blocks of 2, got an array with blocks of 3",
     [](Setting& t) { (void)t.x.vec2(0); }},
    {"shape: vec4: expected blocks of 4, got an array with blocks of 3",
     [](Setting& t) { (void)t.x.vec4(0); }},
    {"invalid_argument: vec3: block 4 is out of range (the array has 4)",
     [](Setting& t) { (void)t.x.vec3(4); }},
    {"invalid_argument: vec3: block -1 is out of range (the array has 4)",
     [](Setting& t) { (void)t.x.vec3(-1); }},
    {"invalid_argument: parameters: block 4 is out of range (the array has 4)",
     [](Setting& t) { (void)t.x(4, 0); }},
    {"invalid_argument: parameters: coordinate 3 is out of range (blocks have 3)",
     [](Setting& t) { (void)t.x(0, 3); }},
    {"invalid_argument: parameters: coordinate -1 is out of range (blocks have 3)",
     [](Setting& t) { (void)t.x(0, -1); }},
    {"invalid_argument: data: block 2 is out of range (the array has 2)",
     [](Setting& t) { (void)t.data(2, 0); }},
    {"invalid_argument: data: coordinate 2 is out of range (blocks have 2)",
     [](Setting& t) { (void)t.data(0, 2); }},
    {"shape: data: expected blocks of 1, got an array with blocks of 2",
     [](Setting& t) { (void)t.data[0]; }},
    {"shape: vec3: expected blocks of 3, got an array with blocks of 2",
     [](Setting& t) { (void)t.data.vec3(0); }},
    // Residuals.
    {"no_parameters: add_residual: the residual does not depend on any parameter, in residual #1",
     [](Setting& t) { t.problem.add_residual(Value(2.0) * t.uniform); }},
    {"wrong_problem: add_residual: parameter 17 is not part of this problem (problem has 15), but "
     "of another one or of one that is gone, "
     "in residual \"edge_length\" #1",
     [](Setting& t) { t.problem.add_residual(t.s[0] - t.foreign[17], {.label = "edge_length"}); }},
    {"wrong_problem: add_residual: parameter 2 is not part of this problem (problem has 15), but "
     "of another one or of one that is gone, "
     "in residual #1",
     [](Setting& t) { t.problem.add_residual(t.foreign[2]); }},
    {"wrong_problem: add_residual: uniform 0 is not part of this problem (problem has 1), but of "
     "another one or of one that is gone, "
     "in residual #1",
     [](Setting& t) { t.problem.add_residual(t.s[0] * t.foreign_uniform); }},
    {"wrong_problem: add_residual: data 2 is not part of this problem (problem has 4), but of "
     "another one or of one that is gone, "
     "in residual #1",
     [](Setting& t) { t.problem.add_residual(t.s[0] * t.foreign_data[2]); }},
    {"shape: add_residual: expected at least one row, got none, in residual #1",
     [](Setting& t) { t.problem.add_residual(std::span<const Value>()); }},
    {"shape: vec3: expected blocks of 3, got an array with blocks of 1",
     [](Setting&) { (void)Parameters().vec3(0); }},
    {"wrong_problem: add_residual: uniform 0 is not part of this problem (problem has 1), but of "
     "another one or of one that is gone, in "
     "residual #1",
     [](Setting& t) { t.problem.add_residual(t.s[0] * Uniform()); }},
    // Maps.
    {"no_parameters: add_residuals: the residual does not depend on any parameter, in residual "
     "\"map\" #1",
     [](Setting& t) {
       t.problem.add_residuals(2, [](Element) { return literal(1.0); }, {.label = "map"});
     }},
    {"wrong_problem: add_residuals: parameter is not part of this problem (problem has 15), but of "
     "another one or of one that is gone, "
     "in residual #1",
     [](Setting& t) {
       t.problem.add_residuals(3, [&](Element e) { return e.scalar(t.foreign, 0); },
                               {.indices = t.indices});
     }},
    {"shape: add_residuals: indices: expected equally many for each of 4 elements, got 6, "
     "in residual #1",
     [](Setting& t) {
       t.problem.add_residuals(4, [&](Element e) { return e.scalar(t.s, 0); },
                               {.indices = t.indices});
     }},
    {"shape: add_residuals: data: expected equally many for each of 2 elements, got 3, "
     "in residual #1",
     [](Setting& t) {
       t.problem.add_residuals(2, [&](Element e) { return e.scalar(t.s, 0); },
                               {.indices = t.indices, .data = t.b});
     }},
    {"shape: add_residuals: indices: expected 3 offsets, got 2, in residual #1",
     [](Setting& t) {
       t.problem.add_residuals(2, [&](Element e) { return e.scalar(t.s, 0); },
                               {.indices = t.indices, .offsets = t.few});
     }},
    {"shape: add_residuals: indices: expected ascending offsets, got a descent, in residual #1",
     [](Setting& t) {
       t.problem.add_residuals(2, [&](Element e) { return e.scalar(t.s, 0); },
                               {.indices = t.indices, .offsets = t.descending});
     }},
    {"shape: add_residuals: indices: expected 6 as the last offset, got 4, in residual #1",
     [](Setting& t) {
       t.problem.add_residuals(2, [&](Element e) { return e.scalar(t.s, 0); },
                               {.indices = t.indices, .offsets = t.short_of});
     }},
    {"invalid_argument: add_residuals: index 1 of element 2 selects block 9, out of range (the "
     "array has 3), in residual #3",
     [](Setting& t) {
       t.problem.add_residuals(3, [&](Element e) { return e.scalar(t.s, 0) * e.scalar(t.s, 1); },
                               {.indices = t.indices});
     }},
    {"invalid_argument: add_residuals: index 0 of element 0 selects block -1, out of range (the "
     "array has 3), in residual #1",
     [](Setting& t) {
       t.problem.add_residuals(6, [&](Element e) { return t.s[e.index(0) - 1]; },
                               {.indices = t.indices});
     }},
    {"invalid_argument: element: index 2 is out of range (the element has 2)",
     [](Setting& t) {
       t.problem.add_residuals(3, [&](Element e) { return e.scalar(t.s, 2); },
                               {.indices = t.indices});
     }},
    {"invalid_argument: element: data 0 is out of range (the element has 0)",
     [](Setting& t) {
       t.problem.add_residuals(3, [&](Element e) { return e.data(0); }, {.indices = t.indices});
     }},
    {"shape: vec3: expected blocks of 3, got an array with blocks of 1",
     [](Setting& t) {
       t.problem.add_residuals(3, [&](Element e) { return e.vec3(t.s, 0); },
                               {.indices = t.indices});
     }},
    {"stale_value: add_residual: a Value of a map's element is used outside of the callable that "
     "it "
     "was made for, in residual #1",
     [](Setting& t) {
       std::vector<Value> kept;
       t.other.add_residuals(1,
                             [&](Element e) {
                               kept.push_back(t.s[e.index(0)]);
                               return e.scalar(t.foreign, 0);
                             },
                             {.indices = std::span(t.indices).first(1)});
       t.problem.add_residual(kept[0]);
     }},
    // Later changes.
    {"wrong_problem: set: the data array is not part of this problem",
     [](Setting& t) { t.problem.set(t.foreign_data, t.b); }},
    {"shape: set: expected 4 numbers, got 3", [](Setting& t) { t.problem.set(t.data, t.b); }},
    {"wrong_problem: set: the uniform is not part of this problem",
     [](Setting& t) { t.problem.set(t.foreign_uniform, 3.0); }},
    {"wrong_problem: value: the uniform is not part of this problem",
     [](Setting& t) { (void)t.problem.value(t.foreign_uniform); }},
    {"wrong_problem: remove: the residual is not part of this problem",
     [](Setting& t) { t.problem.remove(t.foreign_residual); }},
    {"invalid_argument: remove: the residual is not there, or was removed before",
     [](Setting& t) {
       t.problem.remove(t.residual);
       t.residual = t.problem.add_residual(t.s[0]);
       const Residual twice = t.residual;
       t.problem.remove(twice);
       t.residual = t.problem.add_residual(t.s[0]);
       t.problem.remove(twice);
     }},
    {"wrong_problem: remove: the parameter array is not part of this problem",
     [](Setting& t) { t.problem.remove(t.foreign); }},
    {"invalid_argument: remove: expected an array that nothing reads, but residual #0 reads block "
     "0 "
     "of it",
     [](Setting& t) { t.problem.remove(t.s); }},
    {"invalid_argument: remove: the parameter array is not there, or was removed before",
     [](Setting& t) {
       t.problem.remove(t.x);
       t.problem.remove(t.x);
     }},
    {"invalid_argument: set_constant: the parameter array is not there, or was removed before",
     [](Setting& t) {
       t.problem.remove(t.x);
       t.problem.set_constant(t.x, 0);
     }},
    {"invalid_argument: add_residual: parameter 4 is of an array that was removed, in residual "
     "\"gone\" #1",  // of a known shape
     [](Setting& t) {
       t.problem.remove(t.x);
       t.problem.add_residual(t.x(1, 1), {.label = "gone"});
     }},
    {"invalid_argument: add_residual: parameter 4 is of an array that was removed, in residual #1",
     [](Setting& t) {
       t.problem.remove(t.x);
       t.problem.add_residual(exp(t.x(1, 1)));
     }},
    {"invalid_argument: add_residuals: parameter 1 is of an array that was removed, in residual #1",
     [](Setting& t) {
       t.problem.remove(t.x);
       t.problem.add_residuals(3, [&](Element e) { return t.x(e.index(0), 1); },
                               {.indices = std::span(t.indices).first(3)});
     }},
    {"wrong_problem: set_constant: the parameter array is not part of this problem",
     [](Setting& t) { t.problem.set_constant(t.foreign, 0); }},
    {"invalid_argument: set_variable: block 4 is out of range (the array has 4)",
     [](Setting& t) { t.problem.set_variable(t.x, 4); }},
    {"shape: read_x: expected 15 numbers, got 12", [](Setting& t) { t.problem.read_x(t.a); }},
    {"shape: write_x: expected 15 numbers, got 3", [](Setting& t) { t.problem.write_x(t.b); }},
    {"invalid_argument: locate: row 1 is out of range (problem has 1)",
     [](Setting& t) { (void)t.problem.locate(1); }},
};

TEST(Errors, EachMistakeHasItsTextAndChangesNothing) {
  for (const Mistake& mistake : kMistakes) {
    SCOPED_TRACE(mistake.error);
    Setting setting;
    EXPECT_EQ(error_of([&] { mistake.call(setting); }), mistake.error);
    EXPECT_EQ(setting.problem.parameter_count(), 15u);
    EXPECT_EQ(setting.problem.residual_block_count(), 1u);
    EXPECT_EQ(setting.problem.residual_count(), 1u);
    EXPECT_EQ(setting.problem.topology_count(), 1u);
    EXPECT_EQ(residuals(setting.problem), std::vector<double>{1});
  }
}

TEST(Errors, AProblemThatWasMovedFromSaysSo) {
  Setting t;
  Problem moved = std::move(t.problem);
  const std::string expected =
      "invalid_argument: problem: it was moved from; expected the one that it was moved to";
  std::vector<double> more = {1, 2};
  const std::vector<std::uint32_t> index = {1};
  Problem& gone = t.problem;
  const auto map = [&](Element e) { return e.scalar(t.s, 0); };
  const std::function<void()> calls[] = {
      [&] { gone.add_parameters(more); },
      [&] { gone.add_data(more); },
      [&] { gone.add_uniform(1.0); },
      [&] { gone.add_residual(t.s[0]); },
      [&] { gone.add_energy(t.s[0]); },
      [&] { gone.add_residuals(1, map, {.indices = index}); },
      [&] { gone.set_constant(t.s, 0); },
      [&] { gone.set_lower_bound(t.s, 0, 0, -1.0); },
      [&] { (void)gone.parameter_count(); },
      [&] { (void)gone.residual_count(); },
      [&] { (void)gone.topology_count(); },
      [&] { gone.read_x(more); },
  };
  for (std::size_t k = 0; k < std::size(calls); ++k) EXPECT_EQ(error_of(calls[k]), expected) << k;
  EXPECT_EQ(moved.residual_block_count(), 1u);
  gone = Problem();  // is one again
  EXPECT_EQ(gone.residual_count(), 0u);
}

TEST(Errors, NonFiniteNumbersInDataAreAllowed) {
  Setting t;
  t.problem.add_residual(t.s[0] * std::numeric_limits<double>::quiet_NaN());
  const std::vector<double> data = {std::numeric_limits<double>::infinity()};
  const std::vector<std::uint32_t> index = {1};
  t.problem.add_residuals(1, [&](Element e) { return e.scalar(t.s, 0) * e.data(0); },
                          {.indices = index, .data = data});
  const std::vector<double> rows = residuals(t.problem);
  EXPECT_TRUE(std::isnan(rows[1]));
  EXPECT_EQ(rows[2], data[0]);
}

}  // namespace
}  // namespace topograd::test
