// The pattern of JᵀJ against the product of dense Jacobians.
#include "../engines/engine_models.hpp"

#include "../../../runtime/linear/normal_plan.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

using runtime::NormalPlan;

std::vector<std::vector<runtime::SlotGroup>> groups_of(const OwnedModel& m) {
  std::vector<std::vector<runtime::SlotGroup>> groups;
  for (const runtime::Term& term : m.model.terms)
    groups.push_back(find_groups(*term.batch, m.model.arrays));
  return groups;
}

NormalPlan plan_of(const OwnedModel& m) { return plan_normal_matrix(m.model, groups_of(m)); }

using Dense = std::vector<std::vector<double>>;

Dense zeros(std::size_t n) { return Dense(n, std::vector<double>(n, 0.0)); }

/// The block rows by scalar rows: position of the row's values, and its columns.
struct ScalarRow {
  std::size_t values = 0;
  std::vector<std::uint32_t> columns;
  std::uint32_t diagonal = 0;  // place of the diagonal block
};

std::vector<ScalarRow> rows_of(const NormalPlan& plan, const OwnedModel& m) {
  std::vector<ScalarRow> rows;
  std::size_t block = 0;
  for (const runtime::ParameterArray& array : m.model.arrays) {
    for (std::uint64_t b = 0; b < array.blocks; ++b, ++block) {
      const runtime::BlockRows::Row at = plan.matrix.row(block);
      const auto columns = plan.matrix.columns_of(block);
      for (std::uint32_t a = 0; a < array.width; ++a) {
        ScalarRow row{.values = at.values + std::size_t{a} * at.length, .diagonal = at.diagonal};
        row.columns.assign(columns.begin(), columns.end());
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

/// The kernels' expected results: products by the plan's lists, diagonal blocks from `expected`.
Dense assembled(const OwnedModel& m, const NormalPlan& plan, const Dense& expected) {
  const Dense jacobian = reference_jacobian(m);
  const auto groups = groups_of(m);
  std::vector<double> values(plan.matrix.values(), std::nan(""));
  for (const runtime::BlockProducts& products : plan.products) {
    const ir::Batch& batch = *m.model.terms[products.term].batch;
    const std::size_t rows = m.model.terms[products.term].topology->program.outputs.size();
    const auto scalar = [&](std::size_t instance, std::uint32_t group, std::uint32_t coordinate) {
      const runtime::SlotGroup& g = groups[products.term][group];
      const std::uint32_t at = batch.index(instance, g.slots.front());
      return at - g.coordinates.front() + coordinate;
    };
    for (const runtime::BlockShape& shape : products.shapes) {
      for (std::uint32_t k = shape.first; k < shape.first + shape.count; ++k) {
        const std::uint32_t* const place = &products.outputs[4 * std::size_t{k}];
        for (std::uint32_t a = 0; a < shape.rows; ++a) {
          for (std::uint32_t b = 0; b < shape.columns; ++b) {
            double sum = 0;
            for (std::uint32_t e = products.starts[k]; e < products.starts[k + 1]; ++e) {
              const std::size_t instance = products.entries[2 * std::size_t{e}];
              const std::uint32_t block_slots = products.entries[2 * std::size_t{e} + 1];
              for (std::size_t r = 0; r < rows; ++r) {
                const auto& row = jacobian[batch.residual_row(instance) + r];
                sum += row[scalar(instance, block_slots & 0xffff, a)] *
                       row[scalar(instance, block_slots >> 16, b)];
              }
            }
            for (const std::size_t at : {place[0] + a * place[1] + b, place[2] + b * place[3] + a})
              values[at] = std::isnan(values[at]) ? sum : values[at] + sum;
          }
        }
      }
    }
  }
  Dense out = zeros(m.x.size());
  const std::vector<ScalarRow> rows = rows_of(plan, m);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t k = 0; k < rows[r].columns.size(); ++k) {
      const std::uint32_t c = rows[r].columns[k];
      if (k > 0) {
        EXPECT_LT(rows[r].columns[k - 1], c);
      }
      const double value = values[rows[r].values + k];
      out[r][c] = std::isnan(value) ? expected[r][c] : value;
    }
  }
  return out;
}

Dense product(const OwnedModel& m) {
  const Dense jacobian = reference_jacobian(m);
  Dense out = zeros(m.x.size());
  for (const auto& row : jacobian) {
    for (std::size_t a = 0; a < row.size(); ++a) {
      if (row[a] == 0) continue;
      for (std::size_t b = 0; b < row.size(); ++b) out[a][b] += row[a] * row[b];
    }
  }
  return out;
}

void expect_same(const Dense& a, const Dense& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t r = 0; r < a.size(); ++r) {
    for (std::size_t c = 0; c < a.size(); ++c)
      ASSERT_NEAR(a[r][c], b[r][c], 1e-11 * (1 + std::abs(b[r][c]))) << r << ", " << c;
  }
}

TEST(NormalPlan, BlocksAreThoseOfTheProduct) {
  const auto models = [] {
    std::vector<OwnedModel> out;
    out.push_back(springs_model(40, 90));
    out.push_back(shared_model(30));
    out.push_back(sheet_model(6));
    out.push_back(pulled_sheet_model(7));
    return out;
  }();
  for (const OwnedModel& m : models) {
    const NormalPlan plan = plan_of(m);
    ASSERT_TRUE(plan.possible());
    const Dense expected = product(m);
    expect_same(assembled(m, plan, expected), expected);
    // Off the diagonal no block came from `expected`.
    std::uint64_t counted = 0;
    for (const runtime::BlockProducts& products : plan.products) {
      for (const runtime::BlockShape& shape : products.shapes) counted += 2 * shape.count;
    }
    EXPECT_GE(counted + plan.matrix.size(), plan.blocks);
  }
}

TEST(NormalPlan, SaysWhyThereIsNone) {
  EXPECT_EQ(plan_of(chain_model(40)).why.reason, runtime::MatrixReason::unlike_order);
  EXPECT_EQ(plan_of(energy_model(10, 20)).why.reason, runtime::MatrixReason::energies);
  OwnedModel twice = springs_model(10, 20);
  twice.add_row(0, {3, 4, 5, 3, 4, 5}, {1.0});
  EXPECT_EQ(plan_of(twice).why.reason, runtime::MatrixReason::block_twice);
  OwnedModel often = springs_model(10, 20);
  for (int k = 0; k < 5000; ++k) often.add_row(0, {0, 1, 2, 3, 4, 5}, {1.0});
  EXPECT_EQ(plan_of(often).why.reason, runtime::MatrixReason::many_residuals);
}

TEST(NormalPlan, ListsNoProductsBeyondTheLimit) {
  const OwnedModel m = springs_model(40, 90);
  const std::uint64_t bytes = plan_of(m).matrix.bytes(sizeof(double));
  const auto within = [&](std::uint64_t most) {
    return plan_normal_matrix(m.model, groups_of(m), {.most_bytes = most});
  };
  EXPECT_FALSE(within(bytes).products.empty());
  const NormalPlan beyond = within(bytes - 1);
  EXPECT_EQ(beyond.why.reason, runtime::MatrixReason::large_blocks);
  EXPECT_TRUE(beyond.products.empty());
}

}  // namespace
}  // namespace topograd::test
