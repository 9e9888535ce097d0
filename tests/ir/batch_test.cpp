// Columns in blocks: appending, reading, changing, removing, against plain vectors.
#include "../../ir/batch/batch.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace topograd::test {
namespace {

struct Row {
  std::vector<std::uint32_t> indices;
  std::vector<double> data;
  std::uint64_t residual_row = 0;
};

Row row_of(std::uint32_t k, const ir::Batch& batch) {
  Row row{.residual_row = 3ull * k};
  for (std::uint32_t c = 0; c < batch.index_columns(); ++c) row.indices.push_back(7 * k + c);
  for (std::uint32_t c = 0; c < batch.data_columns(); ++c) row.data.push_back(0.5 * k - c);
  return row;
}

void expect_rows(const ir::Batch& batch, const std::vector<Row>& rows) {
  ASSERT_EQ(batch.size(), rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::uint32_t c = 0; c < batch.index_columns(); ++c) {
      ASSERT_EQ(batch.index(r, c), rows[r].indices[c]);
    }
    for (std::uint32_t c = 0; c < batch.data_columns(); ++c) {
      ASSERT_EQ(batch.data(r, c), rows[r].data[c]);
    }
    ASSERT_EQ(batch.residual_row(r), rows[r].residual_row);
  }
}

struct Shape {
  std::uint32_t parameters, uniforms, data;
  std::size_t rows;
};

TEST(Batch, TakesManyRowsAtOnce) {
  constexpr std::size_t kBlock = ir::Batch::kBlockRows;
  const std::size_t before[] = {0, 1, 8, 100, kBlock - 1, kBlock};
  const std::size_t added[] = {1, 7, 9, kBlock - 1, kBlock, 2 * kBlock + 5};
  for (const std::size_t first : before) {
    for (const std::size_t count : added) {
      ir::Batch batch(2, 1, 2);
      std::vector<Row> rows;
      const auto append = [&] {
        rows.push_back(row_of(static_cast<std::uint32_t>(rows.size()), batch));
        batch.append(rows.back().indices, rows.back().data, rows.back().residual_row);
      };
      for (std::size_t k = 0; k < first; ++k) append();
      const std::uint64_t version = batch.structure_version();
      const std::vector<ir::Batch::NewRows> blocks = batch.append_rows(count);
      EXPECT_GT(batch.structure_version(), version);
      for (const ir::Batch::NewRows& block : blocks) {
        for (std::size_t i = 0; i < block.count; ++i) {
          const Row row = row_of(static_cast<std::uint32_t>(block.first + i), batch);
          for (std::uint32_t c = 0; c < 3; ++c) block.index[c * block.stride + i] = row.indices[c];
          for (std::uint32_t c = 0; c < 2; ++c) block.data[c * block.stride + i] = row.data[c];
          block.row[i] = row.residual_row;
          rows.push_back(row);
        }
      }
      for (int k = 0; k < 10; ++k) append();
      expect_rows(batch, rows);
    }
  }
}

TEST(Batch, IsAVectorOfRows) {
  constexpr std::size_t kBlock = ir::Batch::kBlockRows;
  const Shape shapes[] = {{2, 1, 1, 3},
                          {6, 0, 2, kBlock},
                          {1, 2, 0, kBlock + 1},
                          {0, 0, 3, 2 * kBlock + 7},
                          // Blocks that share large pages, and blocks that take several.
                          {100, 0, 49, 11 * kBlock + 3},
                          {1100, 0, 0, 5 * kBlock + 1}};
  for (const Shape& s : shapes) {
    ir::Batch batch(s.parameters, s.uniforms, s.data);
    std::vector<Row> rows;
    for (std::uint32_t k = 0; k < s.rows; ++k) {
      rows.push_back(row_of(k, batch));
      batch.append(rows.back().indices, rows.back().data, rows.back().residual_row);
    }
    expect_rows(batch, rows);

    std::mt19937 random(1);
    for (int k = 0; k < 50 && !rows.empty(); ++k) {
      const std::size_t at = random() % rows.size();
      EXPECT_EQ(batch.remove(at), rows.size() - 1);
      rows[at] = rows.back();
      rows.pop_back();
    }
    expect_rows(batch, rows);
  }
}

TEST(Batch, CopiesColumnsAcrossBlocks) {
  ir::Batch batch(2, 0, 1);
  constexpr std::size_t kRows = 3 * ir::Batch::kBlockRows + 5;
  for (std::uint32_t k = 0; k < kRows; ++k) {
    const Row row = row_of(k, batch);
    batch.append(row.indices, row.data, row.residual_row);
  }
  const std::size_t first = ir::Batch::kBlockRows - 3;
  std::vector<std::uint32_t> index(2 * ir::Batch::kBlockRows + 6);
  std::vector<double> data(index.size());
  batch.copy_index_column(1, first, index);
  batch.copy_data_column(0, first, data);
  for (std::size_t k = 0; k < index.size(); ++k) {
    ASSERT_EQ(index[k], batch.index(first + k, 1));
    ASSERT_EQ(data[k], batch.data(first + k, 0));
  }
}

// A problem of thousands of topologies with one instance each must not hold thousands of full
// blocks.
TEST(Batch, HoldsLittleForFewRows) {
  ir::Batch batch(6, 0, 1);
  const std::size_t row_bytes = 6 * 4 + 8 + 8;
  for (std::uint32_t k = 0; k < 3 * ir::Batch::kBlockRows; ++k) {
    const Row row = row_of(k, batch);
    batch.append(row.indices, row.data, row.residual_row);
    EXPECT_LE(batch.bytes(), row_bytes * (4 * batch.size() + 8));
  }
  EXPECT_LE(batch.bytes(), row_bytes * (3 * ir::Batch::kBlockRows + 50));
}

// Unused parts of large pages count too: the bound is 16 bytes per row, of which 8 are its number.
TEST(Batch, HoldsLittleBeyondTheColumnsOfManyRows) {
  ir::Batch batch(6, 0, 1);
  const std::size_t columns = 6 * 4 + 8;
  for (std::uint32_t k = 0; k < 600'000; ++k) {
    const std::uint32_t indices[6] = {k, k, k, k, k, k};
    const double data[1] = {1.0};
    batch.append(indices, data, k);
    if (k > 100'000) {
      ASSERT_LE(batch.bytes(), (columns + 16) * batch.size()) << k;
    }
  }
  EXPECT_EQ(batch.index(599'999, 5), 599'999u);
  EXPECT_EQ(batch.residual_row(420'000), 420'000u);
}

TEST(Batch, VersionsMoveWithWhatChanged) {
  ir::Batch batch(1, 0, 1);
  batch.append(std::vector<std::uint32_t>{4}, std::vector<double>{1.5}, 0);
  const auto structure = batch.structure_version(), data = batch.data_version();
  batch.set_data(0, 0, 2.5);
  EXPECT_EQ(batch.structure_version(), structure);
  EXPECT_GT(batch.data_version(), data);
  batch.set_index(0, 0, 5);
  EXPECT_GT(batch.structure_version(), structure);
  EXPECT_EQ(batch.data(0, 0), 2.5);
  EXPECT_EQ(batch.index(0, 0), 5u);
}

}  // namespace
}  // namespace topograd::test
