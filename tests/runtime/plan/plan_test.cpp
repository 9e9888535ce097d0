// Column layouts, slot groups and inversions against brute force.
#include "../../../runtime/plan/plan.hpp"
#include "../../../runtime/plan/column_forms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace topograd::runtime {
namespace {

using codegen::IndexSource;

/// Edges (a, b) of blocks of `width` scalars at `offset`: slots are the scalars of both blocks.
ir::Batch edge_batch(std::size_t edges, std::uint32_t blocks, std::uint32_t width,
                     std::uint32_t offset, std::uint32_t hub = ~0u) {
  ir::Batch batch(2 * width, 1, 1);
  std::mt19937 random(7);
  std::vector<std::uint32_t> indices(2 * width + 1);
  for (std::size_t e = 0; e < edges; ++e) {
    const std::uint32_t a = hub < blocks ? hub : random() % blocks;
    const std::uint32_t b = (a + 1 + random() % (blocks - 1)) % blocks;
    for (std::uint32_t k = 0; k < width; ++k) {
      indices[k] = offset + a * width + k;
      indices[width + k] = offset + b * width + k;
    }
    indices[2 * width] = 5;
    const double data[] = {static_cast<double>(e)};
    batch.append(indices, data, e);
  }
  return batch;
}

codegen::ColumnLayout layout_of(const ir::Batch& batch, std::span<const ParameterArray> arrays) {
  const auto groups = find_groups(batch, arrays);
  return make_layout({.parameters = batch.parameter_columns(),
                      .data = batch.data_columns(),
                      .uniforms = batch.uniform_columns()},
                     groups, find_flexible(batch, groups));
}

TEST(Layout, OneColumnForABlockAndAFlexibleOneForAnIndexThatIsShared) {
  const ParameterArray arrays[] = {{0, 1, 9}, {9, 3, 300}};
  const codegen::ColumnLayout layout = layout_of(edge_batch(10000, 300, 3, 9), arrays);
  EXPECT_EQ(layout.index_columns, 3u);
  EXPECT_EQ(layout.data_columns, 1u);
  for (std::uint32_t k = 0; k < 6; ++k) {
    EXPECT_EQ(layout.parameters[k],
              (IndexSource{IndexSource::Kind::column, k / 3, static_cast<std::int32_t>(k % 3)}));
  }
  EXPECT_EQ(layout.uniforms[0], (IndexSource{IndexSource::Kind::flexible, 2, 0, 2}));
  EXPECT_EQ(layout.data[0].kind, codegen::DataSource::Kind::column);
}

/// Springs along a line of blocks, a count, and numbers of which one is shared.
ir::Batch line_batch(std::uint32_t count) {
  ir::Batch batch(6, 1, 2);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t a = 3 * i, b = a + 3;
    const std::uint32_t indices[] = {a, a + 1, a + 2, b, b + 1, b + 2, 4};
    const double data[] = {2.5, static_cast<double>(i)};
    batch.append(indices, data, i);
  }
  return batch;
}

TEST(Forms, SayWhatIsSharedAndWhatGrows) {
  constexpr std::uint32_t kCount = 9000;  // more than two blocks of rows
  const ParameterArray arrays[] = {{0, 3, kCount + 1}};
  ir::Batch batch = line_batch(kCount);
  const codegen::ColumnLayout layout = layout_of(batch, arrays);
  EXPECT_EQ(layout.data[0], (codegen::DataSource{codegen::DataSource::Kind::flexible, 1}));
  EXPECT_EQ(layout.data[1], (codegen::DataSource{codegen::DataSource::Kind::column, 0}));
  ColumnForms forms = find_forms(batch, layout);
  EXPECT_EQ(forms.stored_index(), 0u);
  EXPECT_EQ(forms.stored_data(), 1u);
  const std::uint32_t bases[] = {0, 3, 4}, steps[] = {3, 3, 0};
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(forms.index[c].base, bases[c]) << c;
    EXPECT_EQ(forms.index[c].step, steps[c]) << c;
  }
  EXPECT_EQ(forms.data[1].value, 2.5);
  EXPECT_FALSE(refresh_data_forms(batch, layout, forms));
  batch.set_data(kCount - 1, 0, -2.5);
  EXPECT_TRUE(refresh_data_forms(batch, layout, forms));
  EXPECT_EQ(forms.stored_data(), 2u);
  batch.set_data(kCount - 1, 0, 2.5);
  EXPECT_FALSE(refresh_data_forms(batch, layout, forms));
  EXPECT_EQ(forms.stored_data(), 2u) << "a column that has varied is stored from there on";
  // Bits are compared: -0 differs from 0.
  for (std::uint32_t i = 0; i < kCount; ++i) batch.set_data(i, 0, i == 5000 ? -0.0 : 0.0);
  EXPECT_EQ(find_forms(batch, layout).stored_data(), 2u);
  batch.set_index(kCount - 1, 3, 0);
  EXPECT_EQ(find_forms(batch, layout).stored_index(), 1u);
}

TEST(Forms, EntriesFollowTheirBlock) {
  constexpr std::uint32_t kCount = 5000;
  const ParameterArray arrays[] = {{0, 3, kCount + 1}};
  const ir::Batch batch = line_batch(kCount);
  const auto groups = find_groups(batch, arrays);
  const FlexibleColumns flexible = find_flexible(batch, groups);
  const codegen::ColumnLayout layout = layout_of(batch, arrays);
  const std::uint32_t block_slots[] = {0, 1};
  const auto columns = entry_columns(layout, groups, block_slots, flexible);
  for (std::size_t r = 0; r < 2; ++r) {
    const auto forms = find_entry_forms(batch, layout, columns[r], groups[r]);
    ASSERT_EQ(forms.size(), 2u);  // the other block, the uniform
    EXPECT_EQ(columns[r].fixed, 0u);
    EXPECT_EQ(columns[r].first_form, 2 * r);
    EXPECT_FALSE(forms[0].stored);
    EXPECT_EQ(forms[0].base, r == 0 ? 3u : 0u - 3u);
    EXPECT_EQ(forms[0].step, 1u);
    EXPECT_EQ(forms[1].base, 4u);
    EXPECT_EQ(forms[1].step, 0u);
  }
  // A kernel has room for a limited number of words; further columns are stored.
  FlexibleColumns many = flexible;
  many.data.assign(40, true);
  const auto crowded = make_layout({.parameters = 6, .data = 40, .uniforms = 1}, groups, many);
  EXPECT_EQ(std::ranges::count(crowded.data, codegen::DataSource::Kind::flexible,
                               &codegen::DataSource::kind),
            10);
  EXPECT_EQ(entry_columns(crowded, groups, block_slots, many)[0].fixed, 0u);
  EXPECT_EQ(entry_columns(crowded, groups, block_slots, many)[1].fixed, 2u);
}

TEST(Groups, SlotsOfOneBlockAreOneGroup) {
  const ParameterArray arrays[] = {{0, 1, 9}, {9, 3, 300}};
  const auto groups = find_groups(edge_batch(1000, 300, 3, 9), arrays);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].array, 1u);
  EXPECT_EQ(groups[1].slots, (std::vector<std::uint32_t>{3, 4, 5}));
  EXPECT_EQ(groups[1].coordinates, (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(Groups, FallToScalarsWhereTheCoordinateChanges) {
  const ParameterArray arrays[] = {{0, 2, 50}};
  ir::Batch batch(2, 0, 0);
  for (std::uint32_t i = 0; i + 1 < 100; ++i) {
    const std::uint32_t indices[] = {i, i + 1};
    batch.append(indices, {}, i);
  }
  const auto groups = find_groups(batch, arrays);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].array, kScalars);
}

/// Entries (block, block slot, instance) that work items reach, with partial sums followed to their
/// blocks.
std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> reached(
    const GatherPlan& plan) {
  std::map<std::uint32_t, std::uint32_t> block_of_partial;
  std::vector<std::vector<std::uint32_t>> inner(plan.partials);
  const auto block_slots = plan.block_slots.size();
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> entries;
  for (std::size_t w = 0; w < plan.blocks.size(); ++w) {
    std::uint32_t items = 0;
    for (std::size_t r = 0; r < block_slots; ++r) {
      for (auto e = plan.starts[w * block_slots + r]; e < plan.starts[w * block_slots + r + 1];
           ++e, ++items) {
        entries[{plan.blocks[w], static_cast<std::uint32_t>(r)}].push_back(plan.instances[e]);
      }
    }
    EXPECT_LE(items, w < plan.light_items ? kLightBlock : kSegment);
    if (w >= plan.light_items && w < plan.direct_items) {
      EXPECT_GT(items, kLightBlock);
    }
    if (w < plan.direct_items) {
      EXPECT_EQ(plan.outputs[w], plan.blocks[w]);
    } else {
      block_of_partial[plan.outputs[w]] = plan.blocks[w];
    }
  }
  // Every partial sum must arrive at its block exactly once.
  for (const GatherPlan::Level& level : plan.levels) {
    for (std::size_t k = 0; k < level.target.size(); ++k) {
      const std::uint32_t block = block_of_partial.at(level.first[2 * k]);
      EXPECT_LE(level.first[2 * k + 1] - level.first[2 * k], kSegment);
      for (auto p = level.first[2 * k]; p < level.first[2 * k + 1]; ++p) {
        EXPECT_EQ(block_of_partial.at(p), block);
        block_of_partial.erase(p);
      }
      if (level.to_blocks) {
        EXPECT_EQ(level.target[k], block);
      } else {
        block_of_partial[level.target[k]] = block;
      }
    }
  }
  EXPECT_TRUE(block_of_partial.empty());
  return entries;
}

void expect_inversion(const ir::Batch& batch, std::span<const ParameterArray> arrays,
                      std::uint64_t scalars) {
  const auto groups = find_groups(batch, arrays);
  std::size_t entries = 0;
  for (const GatherPlan& plan : invert(batch, groups, arrays, scalars)) {
    for (auto& [key, instances] : reached(plan)) {
      const SlotGroup& group = groups[plan.block_slots[key.second]];
      EXPECT_TRUE(std::is_sorted(instances.begin(), instances.end()));
      for (std::uint32_t i : instances) {
        EXPECT_EQ(batch.index(i, group.slots[0]),
                  plan.x_first + key.first * plan.block_width + group.coordinates[0]);
      }
      entries += instances.size();
    }
  }
  EXPECT_EQ(entries, batch.size() * groups.size());
}

TEST(Invert, EveryEntryReachesItsBlockOnce) {
  const ParameterArray arrays[] = {{0, 1, 9}, {9, 3, 300}};
  struct Row {
    const char* name;
    std::size_t edges;
    std::uint32_t hub;
  };
  for (const Row& row :
       {Row{"few entries", 3, ~0u}, Row{"many", 5000, ~0u}, Row{"a hub", 700, 4},
        Row{"a hub of two segments", 2500, 4}, Row{"a hub of three levels", 1300000, 0}}) {
    SCOPED_TRACE(row.name);
    expect_inversion(edge_batch(row.edges, 300, 3, 9, row.hub), arrays, 909);
  }
}

TEST(Invert, TermsOfWideResidualsAreListedByScalar) {
  const ParameterArray arrays[] = {{0, 1, 50}};
  ir::Batch batch(40, 0, 0);
  std::vector<std::uint32_t> index(40);
  for (const std::uint32_t first : {0u, 10u}) {
    std::iota(index.begin(), index.end(), first);
    batch.append(index, {}, first);
  }
  const auto groups = find_groups(batch, arrays);
  ASSERT_EQ(groups.size(), 40u);
  EXPECT_TRUE(is_wide(groups));
  std::vector<std::uint32_t> slots(40);
  std::iota(slots.begin(), slots.end(), 0u);
  slots.erase(slots.begin() + 3);  // fixed: the terms of slot 4 take its place
  std::vector<std::uint8_t> constant(50, 0);
  constant[3] = constant[20] = 1;
  const auto plans = invert_terms(batch, slots, 50, constant);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_TRUE(plans[0].of_terms);
  EXPECT_TRUE(plans[0].covers_all);
  std::size_t terms = 0;
  for (const auto& [key, positions] : reached(plans[0])) {
    EXPECT_EQ(constant[key.first], 0);
    for (const std::uint32_t position : positions) {
      EXPECT_EQ(batch.index(position % 2, slots[position / 2]), key.first);
      ++terms;
    }
  }
  EXPECT_EQ(terms, 2u * 39 - 2);  // those of scalar 20
}

TEST(Invert, SaysWhetherAllBlocksAreReached) {
  const ParameterArray arrays[] = {{0, 3, 300}};
  const ir::Batch many = edge_batch(5000, 300, 3, 0), few = edge_batch(20, 300, 3, 0);
  EXPECT_TRUE(invert(many, find_groups(many, arrays), arrays, 900)[0].covers_all);
  EXPECT_FALSE(invert(few, find_groups(few, arrays), arrays, 900)[0].covers_all);
}

TEST(Invert, ConstantBlocksAreLeftOut) {
  const ParameterArray arrays[] = {{0, 1, 9}, {9, 3, 300}};
  for (const std::uint32_t hub : {~0u, 4u}) {
    const ir::Batch batch = edge_batch(5000, 300, 3, 9, hub);
    const auto groups = find_groups(batch, arrays);
    std::vector<std::uint8_t> constant(909, 0);
    std::fill_n(constant.begin() + 9 + 3 * 100, 3 * 100, 1);  // the blocks 100 to 199
    constant[9] = constant[10] = 1;                           // only a part of block 0
    const auto whole = invert(batch, groups, arrays, 909);
    const auto plans = invert(batch, groups, arrays, 909, constant);
    ASSERT_EQ(plans.size(), 1u);
    EXPECT_TRUE(plans[0].covers_all);  // the free blocks
    auto want = reached(whole[0]);
    std::erase_if(want, [](const auto& entry) {
      return entry.first.first >= 100 && entry.first.first < 200;
    });
    EXPECT_EQ(reached(plans[0]), want);
    std::fill(constant.begin(), constant.end(), 1);
    EXPECT_TRUE(invert(batch, groups, arrays, 909, constant).empty());
  }
}

TEST(EntryColumns, LeaveOutTheBlocksOwn) {
  const ParameterArray arrays[] = {{0, 3, 300}};
  const ir::Batch batch = edge_batch(1000, 300, 3, 0);
  const auto layout = layout_of(batch, arrays);
  const auto groups = find_groups(batch, arrays);
  EXPECT_EQ(entry_columns(layout, groups[0]).index_columns, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(entry_columns(layout, groups[1]).index_columns, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(entry_columns(layout, groups[1]).layout.parameters[2].column, 0u);
}

}  // namespace
}  // namespace topograd::runtime
