// How products with JᵀJ are made, by facts alone.
#include <gtest/gtest.h>

#include "../../../solver/plan/report.hpp"

namespace topograd {
namespace {

TEST(Decide, ProductWithTheNormalMatrix) {
  using Source = runtime::ProductChoice::Source;
  using Blocks = runtime::ProductFacts::Blocks;
  const NormalMatrix any_matrix = NormalMatrix::automatic, free = NormalMatrix::matrix_free,
                     assembled = NormalMatrix::assembled;
  const Source evaluates = Source::evaluation, stores = Source::stored_jacobian,
               blocks = Source::blocks;
  const Blocks small = {.blocks = 7, .bytes = 500}, large = {.blocks = 9, .bytes = 501};
  const Blocks impossible = {.obstacle = runtime::because(runtime::MatrixReason::long_row, 20000)};
  const struct {
    const char* name;
    NormalMatrix asked;
    runtime::ProductFacts facts;
    bool asks;
    Source source;
    const char* why;
  } rows[] = {
      {"cheap",
       any_matrix,
       {.operations = 200, .stored_bytes = 1000},
       false,
       evaluates,
       "evaluating a product takes less than reading it would"},
      {"dear",
       any_matrix,
       {.operations = 201, .stored_bytes = 1000, .blocks = small},
       true,
       blocks,
       "7 blocks, 500 bytes"},
      {"large",
       any_matrix,
       {.operations = 201, .stored_bytes = 1000, .blocks = large},
       true,
       stores,
       "its blocks take 501 bytes, which pays up to 500"},
      {"impossible",
       any_matrix,
       {.operations = 201, .stored_bytes = 1000, .blocks = impossible},
       true,
       stores,
       "a row has 20000 numbers"},
      {"a strategy",
       any_matrix,
       {.strategy_asked_for = true, .operations = 201},
       false,
       evaluates,
       "evaluating a product takes less than reading it would"},
      {"out of range",
       any_matrix,
       {.jacobian_fits = false, .operations = 201},
       false,
       evaluates,
       "evaluating a product takes less than reading it would"},
      {"matrix-free", free, {.operations = 201}, false, stores, "not asked for"},
      {"matrix-free, cheap", free, {.operations = 1}, false, evaluates, "not asked for"},
      {"assembled",
       assembled,
       {.operations = 1, .blocks = large},
       true,
       blocks,
       "9 blocks, 501 bytes"},
      {"assembled, impossible",
       assembled,
       {.operations = 1, .blocks = impossible},
       true,
       evaluates,
       "a row has 20000 numbers"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    runtime::ProductFacts unknown = row.facts;
    unknown.blocks.reset();
    EXPECT_EQ(runtime::decide_product(row.asked, unknown).asks_for_blocks, row.asks);
    const runtime::ProductChoice choice = runtime::decide_product(row.asked, row.facts);
    EXPECT_FALSE(choice.asks_for_blocks);
    EXPECT_EQ(choice.source, row.source);
    EXPECT_EQ(text(choice.why), row.why);
  }
}

}  // namespace
}  // namespace topograd
