// The emitter: golden shaders, invariants of every shader, refused requests.
#include "../../codegen/kernel.hpp"
#include "../../codegen/glsl/text.hpp"
#include "../../codegen/kernels/projection.hpp"
#include "../../codegen/vector/kernels.hpp"
#include "../../ir/error.hpp"
#include "../../ir/program.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <regex>
#include <sstream>

#include "../support/paths.hpp"
#include "kernel_requests.hpp"

namespace topograd::codegen {
namespace {

using test::affine_gradient_scatter;
using test::affine_residual;
using test::scaled_gradient_gather;
using test::springs_cost;
using test::springs_cost_gradient_store;
using test::springs_gradient_gather;
using test::springs_gradient_scatter;
using test::springs_jtjp_gather;
using test::springs_residual;
using test::springs_sum_terms;
using test::springs_values_gather;

constexpr Precision kPrecisions[] = {Precision::f32, Precision::f64};

struct Golden {
  std::string file;
  KernelSource source;
};

std::vector<Golden> goldens() {
  KernelRequest cost_wide = springs_cost(Precision::f32);
  cost_wide.wide_sums = true;
  KernelRequest cost_subgroups = springs_cost(Precision::f64);
  cost_subgroups.use_subgroups = true;
  KernelRequest predicated = springs_jtjp_gather(Precision::f32);
  predicated.predicated = true;
  KernelRequest fused = springs_jtjp_gather(Precision::f32);
  fused.fusion = codegen::Fusion::decides;
  KernelRequest workgroups = springs_gradient_gather(Precision::f64);
  workgroups.workgroup_items = true;
  KernelRequest narrow_tree = springs_sum_terms(Precision::f32);
  narrow_tree.workgroup_items = true;
  narrow_tree.tree_bytes = 1024;
  KernelRequest values_workgroups = springs_values_gather(Precision::f32);
  values_workgroups.workgroup_items = true;
  values_workgroups.wide_sums = true;
  KernelRequest fused_terms = fused;
  fused_terms.block_slots.push_back(fused_terms.block_slots[0]);
  fused_terms.block_slots.back().is_fused = true;
  return {
      {"project_blocks_f64", generate(ProjectionRequest{})},
      {"springs_residual_f32", generate(springs_residual(Precision::f32))},
      {"springs_residual_f64", generate(springs_residual(Precision::f64))},
      {"springs_cost_f32", generate(springs_cost(Precision::f32))},
      {"springs_cost_f32_wide", generate(cost_wide)},
      {"springs_cost_f64", generate(springs_cost(Precision::f64))},
      {"springs_cost_f64_subgroups", generate(cost_subgroups)},
      {"springs_gradient_cas_f32",
       generate(springs_gradient_scatter(Precision::f32, Accumulation::atomic_cas))},
      {"springs_gradient_cas_f64",
       generate(springs_gradient_scatter(Precision::f64, Accumulation::atomic_cas))},
      {"springs_gradient_float_f32",
       generate(springs_gradient_scatter(Precision::f32, Accumulation::atomic_float))},
      {"springs_gradient_gather_f64", generate(springs_gradient_gather(Precision::f64))},
      {"springs_gradient_workgroups_f64", generate(workgroups)},
      {"scaled_gradient_gather_f64", generate(scaled_gradient_gather(Precision::f64))},
      {"springs_values_gather_f64", generate(springs_values_gather(Precision::f64))},
      {"springs_values_workgroups_f32", generate(values_workgroups)},
      {"springs_cost_gradient_store_f32", generate(springs_cost_gradient_store(Precision::f32))},
      {"springs_sum_terms_workgroups_f32", generate(narrow_tree)},
      {"springs_jtjp_gather_f32_predicated", generate(predicated)},
      {"springs_sum_terms_f64", generate(springs_sum_terms(Precision::f64))},
      {"affine_residual_f32", generate(affine_residual(Precision::f32))},
      {"affine_gradient_cas_f32", generate(affine_gradient_scatter(Precision::f32))},
      {"vector_cg_update_f64_w3", generate({.op = VectorOp::cg_update, .width = 3})},
      {"vector_cg_update_both_f64_w3",
       generate({.op = VectorOp::cg_update, .width = 3, .step_time = codegen::StepTime::both})},
      {"vector_cg_direction_f32",
       generate(
           {.op = VectorOp::cg_direction, .vectors = Precision::f32, .scalars = Precision::f32})},
      {"springs_jtjp_fused_f32", generate(fused)},
      {"springs_jtjp_fused_terms_f32", generate(fused_terms)},
      {"vector_precondition_f64_w3", generate({.op = VectorOp::precondition, .width = 3})},
  };
}

TEST(Kernel, GoldenFiles) {
  const char* update = std::getenv("TOPOGRAD_UPDATE_GOLDEN");
  for (const Golden& golden : goldens()) {
    const auto path = test::source_dir() / "tests/codegen/golden" / (golden.file + ".glsl");
    if (update != nullptr && update[0] == '1') std::ofstream(path) << golden.source.glsl;
    EXPECT_EQ(test::read_file(path), golden.source.glsl) << path;
  }
}

TEST(Kernel, SameRequestSameBytes) {
  const std::vector<Golden> first = goldens(), second = goldens();
  for (std::size_t k = 0; k < first.size(); ++k) {
    EXPECT_EQ(first[k].source.glsl, second[k].source.glsl) << first[k].file;
    EXPECT_EQ(first[k].source.hash, second[k].source.hash) << first[k].file;
    for (std::size_t other = 0; other < k; ++other) {
      EXPECT_NE(first[k].source.hash, first[other].source.hash)
          << first[k].file << " and " << first[other].file;
    }
  }
}

TEST(Kernel, TitlesDoNotChangeTheHash) {
  KernelRequest request = springs_residual(Precision::f32);
  const KernelSource a = generate(request);
  request.title = "something else";
  const KernelSource b = generate(request);
  request.float_controls_f32 = true;
  const KernelSource c = generate(request);
  EXPECT_NE(a.glsl, b.glsl);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_NE(b.hash, c.hash);
}

// Statements of main() that compute floating-point numbers without `precise`; loads do not compute.
std::vector<std::string> loose_statements(const std::string& glsl) {
  static const std::regex definition(R"(^\s*(float|double) \w+ = .*;$)");
  static const std::regex load(R"(^\s*(float|double) \w+ = \w+\[.*\];$)");
  static const std::regex call(R"(^\s*(float|double) \w+ = (float|double|workgroup_\w+)\(.*\);$)");
  std::vector<std::string> out;
  std::istringstream lines(glsl.substr(glsl.find("void main()")));
  for (std::string line; std::getline(lines, line);) {
    if (!std::regex_match(line, definition) || std::regex_match(line, load)) continue;
    if (!std::regex_match(line, call)) out.push_back(line);
  }
  return out;
}

TEST(Kernel, EveryStatementIsPrecise) {
  for (const Golden& golden : goldens()) {
    EXPECT_EQ(loose_statements(golden.source.glsl), std::vector<std::string>{}) << golden.file;
    EXPECT_NE(golden.source.glsl.find("precise "), std::string::npos) << golden.file;
  }
  EXPECT_EQ(loose_statements("void main() {\n  float t0 = a + b;\n}").size(), 1u);
}

TEST(Kernel, NoDoubleInSinglePrecision) {
  for (const KernelSource& source :
       {generate(springs_residual(Precision::f32)), generate(springs_cost(Precision::f32)),
        generate(springs_gradient_scatter(Precision::f32, Accumulation::atomic_cas)),
        generate(springs_gradient_gather(Precision::f32)),
        generate(springs_sum_terms(Precision::f32))}) {
    EXPECT_EQ(source.glsl.find("double"), std::string::npos) << source.glsl;
    EXPECT_FALSE(std::regex_search(source.glsl, std::regex("[0-9]lf"))) << source.glsl;
    EXPECT_FALSE(source.needs_float64);
  }
  EXPECT_TRUE(generate(springs_residual(Precision::f64)).needs_float64);
}

TEST(Kernel, NeedsFollowTheAccumulation) {
  struct Row {
    Accumulation accumulation;
    Precision precision;
    bool int64_atomics, atomic_float;
    Element out;
  };
  for (const Row& row :
       {Row{Accumulation::atomic_cas, Precision::f32, false, false, Element::u32},
        Row{Accumulation::atomic_cas, Precision::f64, true, false, Element::u64},
        Row{Accumulation::atomic_float, Precision::f32, false, true, Element::f32},
        Row{Accumulation::atomic_float, Precision::f64, false, true, Element::f64}}) {
    const KernelSource source = generate(springs_gradient_scatter(row.precision, row.accumulation));
    SCOPED_TRACE(source.glsl);
    EXPECT_EQ(source.needs_int64_atomics, row.int64_atomics);
    EXPECT_EQ(source.needs_atomic_float, row.atomic_float);
    EXPECT_EQ(source.bindings.back().role, BufferRole::results);
    EXPECT_EQ(source.bindings.back().element, row.out);
  }
}

TEST(Kernel, BytesAndOperationsOfOneInstance) {
  EXPECT_EQ(generate(springs_residual(Precision::f32)).bytes_per_instance, 2 * 4 + 4 + 4u);
  EXPECT_EQ(generate(springs_residual(Precision::f64)).bytes_per_instance, 2 * 4 + 8 + 8u);
  EXPECT_EQ(generate(springs_residual(Precision::f64)).operations, 12u);
  EXPECT_EQ(generate(springs_gradient_gather(Precision::f32)).bytes_per_instance, 2 * (4 + 4u));
}

TEST(Kernel, LiteralsReadBack) {
  struct Row {
    double value;
    std::string f32, f64;
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const Row& row :
       {Row{1, "1.0", "1.0lf"}, Row{-2.5, "(-2.5)", "(-2.5lf)"}, Row{-0.0, "(-0.0)", "(-0.0lf)"},
        Row{0.1, "0.1", "0.1lf"}, Row{1e300, "uintBitsToFloat(0x7f800000u)", "1e+300lf"},
        Row{1e-40, "1e-40", "1e-40lf"}, Row{1e22, "1e+22", "1e+22lf"},
        Row{5e-324, "0.0", "5e-324lf"}, Row{1.0 / 3, "0.33333334", "0.3333333333333333lf"},
        Row{-kInf, "uintBitsToFloat(0xff800000u)", "packDouble2x32(uvec2(0x0u, 0xfff00000u))"}}) {
    EXPECT_EQ(literal(row.value, Precision::f32), row.f32);
    EXPECT_EQ(literal(row.value, Precision::f64), row.f64);
  }
}

TEST(Kernel, NamesThatCannotBeUsedFallBack) {
  KernelRequest request = springs_residual(Precision::f32);
  request.parameter_names = {"x_a", "x_a", "gl_x", "float", "x__b", "X_b"};
  request.data_names = {"out_first"};
  const std::string glsl = generate(request).glsl;
  for (const std::string_view name : {"float x_a =", "float p1 =", "float p2 =", "float p3 =",
                                      "float p4 =", "float p5 =", "float d0 ="}) {
    EXPECT_NE(glsl.find(name), std::string::npos) << name << "\n" << glsl;
  }
}

// NVIDIA's compiler does not terminate if it knows such an operand; in f32 1e300 is one.
TEST(Kernel, DriversDoNotKnowOperandsThatAreNotFinite) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  struct Row {
    double operand;
    std::string f32, f64;
  };
  for (const Row& row :
       {Row{kNan, "(p0, uintBitsToFloat(0x7fc00000u ^ zero_bits))",
            "(p0, packDouble2x32(uvec2(0x0u, 0x7ff80000u ^ zero_bits)))"},
        Row{-HUGE_VAL, "(p0, uintBitsToFloat(0xff800000u ^ zero_bits))",
            "(p0, packDouble2x32(uvec2(0x0u, 0xfff00000u ^ zero_bits)))"},
        Row{1e300, "(p0, uintBitsToFloat(0x7f800000u ^ zero_bits))", "(p0, 1e+300lf)"}}) {
    for (const Precision precision : kPrecisions) {
      ir::Graph g;
      const ir::Id angle =
          g.add(ir::Op::Atan2, g.leaf(ir::Op::Parameter, 0), g.literal(row.operand));
      KernelRequest request;
      request.name = "far";
      request.precision = precision;
      request.program = g.extract(std::vector{angle}, {.parameters = 1});
      request.layout = general_layout(request.program.leaves);
      const std::string glsl = generate(request).glsl;
      const std::string& expected = precision == Precision::f32 ? row.f32 : row.f64;
      EXPECT_NE(glsl.find("atan2"), std::string::npos);
      EXPECT_NE(glsl.find(expected), std::string::npos) << expected << "\n" << glsl;
    }
  }
}

TEST(Kernel, GuardsAreCountedBesideTheCost) {
  ir::Graph g;
  const ir::Id p = g.leaf(ir::Op::Parameter, 0);
  const ir::Id positive = g.add(ir::Op::Gt, p, g.literal(0));
  const ir::Guard guards[] = {{positive, true}, {p, false}};
  KernelRequest request;
  request.name = "guarded";
  request.form = Form::reduce;
  request.program = g.extract(std::vector{g.add(ir::Op::Sqrt, p)}, {.parameters = 1}, guards);
  request.layout = general_layout(request.program.leaves);
  const std::string glsl = generate(request).glsl;
  EXPECT_NE(glsl.find("|| (p0 != 0.0lf)) atomicAdd(failures[0], 1u);"), std::string::npos) << glsl;
}

TEST(Kernel, ContradictionsAreRefused) {
  struct Row {
    std::string message;
    void (*change)(KernelRequest&);
  };
  const Row rows[] = {
      {"generate: \"a b\": expected a name of letters, digits and underscores",
       [](KernelRequest& r) { r.name = "a b"; }},
      {"generate: \"springs_gradient\": expected a title of one line without backslashes",
       [](KernelRequest& r) { r.title = "a\n#error"; }},
      {"generate: \"springs_gradient\": expected a workgroup size that is a power of two up to "
       "1024, got 96",
       [](KernelRequest& r) { r.workgroup_size = 96; }},
      {"generate: \"springs_gradient\": expected 6 targets, got 1",
       [](KernelRequest& r) { r.targets = {0}; }},
      {"generate: \"springs_gradient\": expected an atomic accumulation strategy for a scatter, "
       "got gather_store",
       [](KernelRequest& r) { r.accumulation = Accumulation::gather_store; }},
      {"generate: parameter slot 3 lies in column 1, the layout has 1",
       [](KernelRequest& r) { r.layout.index_columns = 1; }},
      {"generate: the layout has 0 data slots, the program reads slot 0",
       [](KernelRequest& r) { r.layout.data.clear(); }},
      {"generate: \"springs_gradient\": expected 1 outputs, got 6",
       [](KernelRequest& r) { r.form = Form::reduce; }},
      {"generate: \"springs_gradient\": expected at least one block slot, got none",
       [](KernelRequest& r) { r.form = Form::gather; }},
      {"generate: \"springs_gradient\": expected work items of workgroups in an unfused gather or "
       "sum of terms",
       [](KernelRequest& r) { r.workgroup_items = true; }},
      {"generate: \"springs_gradient\": expected values beside an unpredicated, unfused store, "
       "scatter or gather",
       [](KernelRequest& r) { r.values.given = r.predicated = true; }},
      {"generate: \"springs_gradient\": expected 5 targets, got 6",
       [](KernelRequest& r) { r.values.given = true; }},
  };
  for (const Row& row : rows) {
    KernelRequest request = springs_gradient_scatter(Precision::f32, Accumulation::atomic_cas);
    row.change(request);
    try {
      generate(request);
      ADD_FAILURE() << "accepted: " << row.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), row.message);
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    }
  }
}

TEST(Kernel, AccumulationNames) {
  std::string names;
  for (const AccumulationRow& row : kAccumulations) {
    EXPECT_EQ(parse_accumulation(row.name), row.value);
    EXPECT_EQ(name(row.value), row.name);
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  try {
    parse_accumulation("fastest");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "accumulation: expected one of " + names + ", got \"fastest\"");
  }
}

TEST(Kernel, VectorRequestsOutOfRange) {
  struct Row {
    std::string message;
    VectorKernelRequest request;
  };
  for (const Row& row :
       {Row{"generate: vector kernel cg_update: expected a width of 1 to 16, got 17",
            {.op = VectorOp::cg_update, .width = 17}},
        Row{"generate: vector kernel fill: expected a workgroup size that is a power of two up to "
            "1024, got 0",
            {.workgroup_size = 0}},
        Row{"generate: vector kernel fill: expected scalars at least as wide as the vectors, got "
            "f32 for f64",
            {.scalars = Precision::f32}}}) {
    try {
      generate(row.request);
      ADD_FAILURE() << "accepted: " << row.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), row.message);
    }
  }
}

// Drivers write the code of a function again for each call of it: 192 cosines took minutes.
TEST(Kernel, RepeatedPartsOfManyFunctionsAreLoops) {
  constexpr std::uint32_t kChains = 16;
  for (const int cosines : {0, 12}) {
    ir::Graph g;
    ir::Id sum = g.literal(0.5);
    for (std::uint32_t chain = 0; chain < kChains; ++chain) {
      ir::Id value = g.leaf(ir::Op::Data, chain);
      for (int step = 0; step < 36; ++step) {
        const ir::Id square = g.add(ir::Op::Mul, value, value);
        value = g.add(step < cosines ? ir::Op::Cos : ir::Op::Sqrt,
                      g.add(ir::Op::Add, square, g.literal(2)));
      }
      sum = g.add(ir::Op::Add, sum, value);
    }
    KernelRequest request;
    request.name = "chains";
    request.precision = Precision::f64;
    request.program = g.extract(std::vector{sum}, {.data = kChains});
    request.layout = codegen::general_layout(request.program.leaves);
    const std::string source = generate(request).glsl;
    EXPECT_EQ(source.find("lane < 16u") != std::string::npos, cosines > 0);
    EXPECT_EQ(source.find("void lane0(") != std::string::npos, cosines == 0);
  }
}

}  // namespace
}  // namespace topograd::codegen
