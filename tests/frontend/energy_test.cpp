// Energies of a problem: separate topologies, rows, removal, labels, maps, mistakes.
#include <gtest/gtest.h>

#include "../../ir/evaluate.hpp"

#include <functional>
#include <vector>

#include "reference.hpp"

namespace topograd::test {
namespace {

/// Values of all energies, in the order of adding.
std::vector<double> energies(const Problem& problem) {
  std::vector<double> x(problem.parameter_count()), out(problem.energy_count());
  problem.read_x(x);
  for (std::size_t t = 0; t < problem.topology_count(); ++t) {
    if (!problem.is_energy(t)) continue;
    const ir::Batch& batch = problem.batch(t);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      std::vector<double> p, d;
      for (std::uint32_t k = 0; k < batch.parameter_columns(); ++k)
        p.push_back(x[batch.index(i, k)]);
      for (std::uint32_t k = 0; k < batch.data_columns(); ++k) d.push_back(batch.data(i, k));
      out[batch.residual_row(i)] =
          ir::evaluate<double>(problem.topology(t).program, {.parameters = p, .data = d})[0];
    }
  }
  return out;
}

TEST(Energies, AreApartFromResidualsOfTheSameStructure) {
  std::vector<double> values = {2, 3, 5};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  for (std::size_t k = 0; k < 3; ++k) {
    problem.add_residual(x[k] * 10.0, {.label = "row"});
    problem.add_energy(x[k] * 7.0, {.label = "well"});
  }
  ASSERT_EQ(problem.topology_count(), 2u);
  EXPECT_FALSE(problem.is_energy(0));
  EXPECT_TRUE(problem.is_energy(1));
  EXPECT_EQ(problem.residual_count(), 3u);
  EXPECT_EQ(problem.residual_block_count(), 3u);
  EXPECT_EQ(problem.energy_count(), 3u);
  EXPECT_EQ(problem.label(1), "well");
  EXPECT_EQ(problem.label(1, 2), "well");
  EXPECT_EQ(residuals(problem), (std::vector<double>{20, 30, 50}));
  EXPECT_EQ(energies(problem), (std::vector<double>{14, 21, 35}));
  EXPECT_EQ(problem.locate(2).topology, 0u);
  EXPECT_EQ(problem.locate(2).label, "row");
  EXPECT_EQ(problem.statistics().energies, 3u);
  EXPECT_EQ(problem.statistics().residual_blocks, 3u);
  EXPECT_GE(problem.statistics().fast_matches, 2u);
}

TEST(Energies, AreRemovedWithoutMovingResiduals) {
  std::vector<double> values = {2, 3, 5};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const Data scale = problem.add_data(std::vector<double>{1, 10, 100});
  std::vector<Term> terms;
  std::vector<Residual> rows;
  for (std::size_t k = 0; k < 3; ++k) {
    terms.push_back(problem.add_energy(x[k] * scale[k]));
    rows.push_back(problem.add_residual(x[k] + scale[k]));
  }
  problem.remove(terms[0]);
  EXPECT_EQ(energies(problem), (std::vector<double>{30, 500}));
  EXPECT_EQ(residuals(problem), (std::vector<double>{3, 13, 105}));
  problem.remove(rows[1]);
  problem.set(scale, std::vector<double>{2, 20, 200});
  EXPECT_EQ(energies(problem), (std::vector<double>{60, 1000}));
  EXPECT_EQ(residuals(problem), (std::vector<double>{4, 205}));
  terms.push_back(problem.add_energy(x[0] * scale[0]));
  EXPECT_EQ(energies(problem), (std::vector<double>{60, 1000, 4}));
  problem.remove(terms[2]);
  problem.remove(terms[1]);
  problem.remove(terms[3]);
  EXPECT_EQ(problem.energy_count(), 0u);
  EXPECT_EQ(residuals(problem), (std::vector<double>{4, 205}));
}

TEST(Energies, OfAMapAreGroupedByValence) {
  std::vector<double> values = {1, 2, 3, 4};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const std::vector<std::uint32_t> indices = {0, 1, 2, 3, 1, 2, 3}, offsets = {0, 2, 5, 7};
  const Terms added =
      problem.add_energies(3,
                           [&](Element e) {
                             Value sum = e.scalar(x, 0);
                             for (int k = 1; k < e.valence(); ++k) sum = sum * e.scalar(x, k);
                             return sum;
                           },
                           {.indices = indices, .offsets = offsets, .label = "star"});
  EXPECT_EQ(added.count, 3u);
  EXPECT_EQ(added.last - added.first, 3u);
  EXPECT_EQ(problem.topology_count(), 2u);
  EXPECT_EQ(problem.residual_count(), 0u);
  EXPECT_EQ(energies(problem), (std::vector<double>{2, 24, 12}));
  EXPECT_EQ(problem.label(1), "star");
}

TEST(Energies, EachMistakeHasItsTextAndChangesNothing) {
  std::vector<double> values = {1, 2};
  Problem problem, other;
  const Parameters x = problem.add_parameters(values);
  const Parameters foreign = other.add_parameters(values);
  const Term foreign_term = other.add_energy(foreign[0]);
  const Term term = problem.add_energy(x[0] * x[1]);
  const std::vector<std::uint32_t> indices = {0, 1};
  const struct {
    const char* error;
    std::function<void()> call;
  } rows[] = {
      {"no_parameters: add_energy: the energy does not depend on any parameter, in energy "
       "\"flat\" #1",
       [&] { problem.add_energy(literal(1.0) + literal(2.0), {.label = "flat"}); }},
      {"wrong_problem: add_energy: parameter 0 is not part of this problem (problem has 2), but of "
       "another one or of one that is gone, in "
       "energy #1",
       [&] { problem.add_energy(foreign[0] * foreign[0]); }},
      {"invalid_argument: add_energy: a robust loss belongs to a residual, not to an energy, in "
       "energy #1",
       [&] { problem.add_energy(x[0], {.loss = huber(1)}); }},
      {"shape: add_energies: expected one number, got 2 rows, in energy #1",
       [&] {
         problem.add_energies(2,
                              [&](Element e) {
                                return Vec2{e.scalar(x, 0), e.scalar(x, 0)};
                              },
                              {.indices = indices});
       }},
      {"wrong_problem: remove: the energy is not part of this problem",
       [&] { problem.remove(foreign_term); }},
      {"invalid_argument: remove: the energy is not there, or was removed before",
       [&] {
         const Term again = problem.add_energy(x[1]);
         problem.remove(again);
         problem.remove(again);
       }},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(error_of(row.call), row.error);
    EXPECT_EQ(problem.energy_count(), 1u);
    EXPECT_EQ(energies(problem), std::vector<double>{2});
  }
  problem.remove(term);
  EXPECT_EQ(problem.energy_count(), 0u);
}

}  // namespace
}  // namespace topograd::test
