// Problem: arrays, data and uniforms that are set later, removal, constants, labels, versions.
#include <gtest/gtest.h>

#include <utility>

#include "reference.hpp"

namespace topograd::test {
namespace {

TEST(Problem, LaysArraysOutOneAfterTheOther) {
  std::vector<double> a = {1, 2, 3, 4, 5, 6}, b = {7, 8};
  double c[2] = {9, 10};
  Problem problem;
  const Parameters x = problem.add_parameters(a, 3);
  const Parameters y = problem.add_parameters(b);
  const Parameters z = problem.add_parameters(c, 2, 2);
  EXPECT_EQ(x.size(), 2u);
  EXPECT_EQ(y.size(), 2u);
  EXPECT_EQ(z.width(), 2);
  EXPECT_EQ(z.offset(), 8u);
  problem.add_residual({x(1, 2), y[0], y.scalar(1), z(0, 1)});
  EXPECT_EQ(residuals(problem), (std::vector<double>{6, 7, 8, 10}));
  EXPECT_EQ(problem.arrays().size(), 3u);
  EXPECT_EQ(problem.arrays()[1].values, b.data());

  std::vector<double> values(10);
  problem.read_x(values);
  EXPECT_EQ(values, (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  for (double& v : values) v *= -1;
  problem.write_x(values);
  EXPECT_EQ(a[5], -6);
  EXPECT_EQ(c[1], -10);
}

TEST(Problem, UniformsAreSharedAndCanBeSet) {
  std::vector<double> values = {2, 3};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const Uniform w = problem.add_uniform(10);
  problem.add_residual(w * x[0]);
  problem.add_residual(x[1] * w);
  problem.add_residual((0.5 * w + w) * x[0]);
  EXPECT_EQ(problem.topology_count(), 2u);
  const Versions before = problem.versions();
  problem.set(w, 100);
  EXPECT_EQ(problem.value(w), 100);
  EXPECT_EQ(residuals(problem), (std::vector<double>{200, 300, 300}));
  EXPECT_GT(problem.versions().uniforms, before.uniforms);
  EXPECT_EQ(problem.versions().structure, before.structure);
}

TEST(Problem, DataArraysCanBeSetUnderResidualsThatReadThem) {
  std::vector<double> values = {1, 2, 3};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const Data scale = problem.add_data(std::vector<double>{10, 20, 30});
  const Data pairs = problem.add_data(std::vector<double>{1, 2, 3, 4, 5, 6}, 2);
  problem.add_residual(x[0] * 7.0 + 0.5);  // the same topology with different numbers
  for (std::size_t k = 0; k < 3; ++k) problem.add_residual(x[k] * scale[k] + 0.5);
  problem.add_residual(x[0] * 8.0 + 0.5);
  const std::vector<std::uint32_t> indices = {2, 1};
  problem.add_residuals(2, [&](Element e) { return e.scalar(x, 0) * e.scalar(scale, 0) + 0.25; },
                        {.indices = indices});
  problem.add_residual(x.scalar(1) * pairs(2, 1) + pairs.vec2(0).x);
  EXPECT_EQ(problem.topology_count(), 1u);
  EXPECT_EQ(residuals(problem),
            (std::vector<double>{7.5, 10.5, 40.5, 90.5, 8.5, 90.25, 40.25, 13}));
  const Versions before = problem.versions();
  problem.set(scale, std::vector<double>{-1, -2, -3});
  EXPECT_EQ(residuals(problem),
            (std::vector<double>{7.5, -0.5, -3.5, -8.5, 8.5, -8.75, -3.75, 13}));
  problem.set(pairs, std::vector<double>{100, 2, 3, 4, 5, 0});
  EXPECT_EQ(residuals(problem).back(), 100);
  EXPECT_GT(problem.versions().data, before.data);
  EXPECT_EQ(problem.versions().structure, before.structure);
}

TEST(Problem, RemovedResidualsLeaveTheOthersInOrder) {
  std::vector<double> values = {1, 2, 3, 4, 5, 6};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const Data d = problem.add_data(std::vector<double>{10, 20, 30, 40, 50, 60});
  std::vector<Residual> handles;
  for (std::size_t k = 0; k < 6; ++k) {
    handles.push_back(problem.add_residual(x[k] * d[k], {.label = k < 3 ? "low" : "high"}));
    handles.push_back(problem.add_residual({x[k] + 0.5, x[k] - 0.5}));
  }
  const ir::Topology* address = &problem.topology(0);
  problem.remove(handles[0]);   // row 10
  problem.remove(handles[11]);  // the last block
  problem.remove(handles[4]);   // row 90
  EXPECT_EQ(problem.residual_block_count(), 9u);
  EXPECT_EQ(problem.residual_count(), 14u);
  EXPECT_EQ(residuals(problem), (std::vector<double>{1.5, 0.5, 40, 2.5, 1.5, 3.5, 2.5, 160, 4.5,
                                                     3.5, 250, 5.5, 4.5, 360}));
  EXPECT_EQ(&problem.topology(0), address);
  EXPECT_EQ(problem.locate(2).label, "low");
  EXPECT_EQ(problem.locate(13).label, "high");
  EXPECT_EQ(problem.locate(0).label, "");

  problem.set(d, std::vector<double>{0, 1, 2, 3, 4, 5});
  handles.push_back(problem.add_residual(x[0] * d[5], {.label = "late"}));
  problem.remove(handles[7]);  // rows 4.5, 3.5
  EXPECT_EQ(residuals(problem),
            (std::vector<double>{1.5, 0.5, 2, 2.5, 1.5, 3.5, 2.5, 12, 20, 5.5, 4.5, 30, 5}));
  EXPECT_EQ(problem.locate(12).label, "late");
  for (const Residual& r : handles)
    if (r.id != handles[0].id && r.id != handles[11].id && r.id != handles[4].id &&
        r.id != handles[7].id)
      problem.remove(r);
  EXPECT_EQ(problem.residual_count(), 0u);
  EXPECT_EQ(problem.batch(0).size(), 0u);
  problem.add_residual(x[3] * d[1]);
  EXPECT_EQ(residuals(problem), std::vector<double>{4});
}

TEST(Problem, ConstantsAreMarkedByScalar) {
  std::vector<double> a = {1, 2, 3, 4, 5, 6}, b = {7};
  Problem problem;
  const Parameters x = problem.add_parameters(a, 3);
  EXPECT_TRUE(problem.constant_mask().empty());
  problem.set_variable(x, 0);
  EXPECT_TRUE(problem.constant_mask().empty());
  const Versions before = problem.versions();
  problem.set_constant(x, 1);
  problem.set_constant(x, 0, 0b100);
  const Parameters y = problem.add_parameters(b);
  const auto mask = [&] {
    return std::vector<int>(problem.constant_mask().begin(), problem.constant_mask().end());
  };
  EXPECT_EQ(mask(), (std::vector<int>{0, 0, 1, 1, 1, 1, 0}));
  EXPECT_GT(problem.versions().constants, before.constants);
  problem.set_constant(y, 0);
  problem.set_variable(x, 1, 0b011);
  EXPECT_EQ(mask(), (std::vector<int>{0, 0, 1, 0, 0, 1, 1}));
  problem.set_variable(x, 0);
  problem.set_variable(x, 1);
  problem.set_variable(y, 0);
  EXPECT_TRUE(problem.constant_mask().empty());
}

TEST(Problem, RowsAreLocatedWithTheirLabels) {
  std::vector<double> values = {1, 2};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  problem.add_residual(x[0] * 2.0);
  problem.add_residual({x[0], x[1]}, {.label = "pair"});
  problem.add_residual(x[1] * 3.0, {.label = "scaled"});
  problem.add_residual(x[1] * 4.0, {.loss = cauchy(2), .label = "scaled"});
  problem.add_residual(x[1] * 5.0);
  EXPECT_EQ(problem.topology_count(), 3u);
  EXPECT_EQ(problem.label(0), "scaled");
  EXPECT_EQ(problem.label(1), "pair");
  const struct {
    std::uint64_t row;
    std::size_t topology, instance;
    std::uint32_t output;
    std::string_view label;
    Loss loss;
  } rows[] = {
      {0, 0, 0, 0, "", {}},       {1, 1, 0, 0, "pair", {}},          {2, 1, 0, 1, "pair", {}},
      {3, 0, 1, 0, "scaled", {}}, {4, 2, 0, 0, "scaled", cauchy(2)}, {5, 0, 2, 0, "", {}}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.row);
    const Place place = problem.locate(row.row);
    EXPECT_EQ(place.topology, row.topology);
    EXPECT_EQ(place.instance, row.instance);
    EXPECT_EQ(place.output, row.output);
    EXPECT_EQ(place.label, row.label);
    EXPECT_EQ(problem.loss(place.topology, place.instance), row.loss);
  }
}

TEST(Problem, MovesWithItsHandles) {
  std::vector<double> values = {1, 2};
  Problem first;
  const Parameters x = first.add_parameters(values);
  const Uniform u = first.add_uniform(3);
  const Residual r = first.add_residual(x[0] * u);
  Problem problem = std::move(first);
  problem.add_residual(x[1] * u);
  problem.remove(r);
  EXPECT_EQ(residuals(problem), std::vector<double>{6});
}

TEST(Problem, StructureVersionMovesWithEveryResidual) {
  std::vector<double> values = {1};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  std::uint64_t last = problem.versions().structure;
  const auto moved = [&] { return std::exchange(last, problem.versions().structure) != last; };
  const Residual r = problem.add_residual(x[0]);
  EXPECT_TRUE(moved());
  EXPECT_FALSE(moved());
  problem.remove(r);
  EXPECT_TRUE(moved());
}

}  // namespace
}  // namespace topograd::test
