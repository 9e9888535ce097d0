// Every op, literal and leaf of generated kernels on a device against the evaluator.
#include "../../ir/evaluate.hpp"
#include "../../ir/program.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "kernel_requests.hpp"
#include "kernel_runner.hpp"

namespace topograd::test {
namespace {

using codegen::BufferRole;
using codegen::generate;
using codegen::KernelRequest;
using codegen::Precision;
using ir::Op;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

class KernelOps : public KernelDeviceTest {
 protected:
  void sweep(const ir::OpInfo& info, Precision precision) {
    const bool specials = keeps_specials(precision);
    auto columns = op_operands(info, specials);
    for (auto& column : columns) column = rounded(std::move(column), precision);
    const auto rows = static_cast<std::uint32_t>(columns[0].size());
    KernelRequest request;
    request.name = "op_" + std::string(info.name);
    request.precision = precision;
    request.program = single_op(info.op);
    request.layout = codegen::general_layout(request.program.leaves);
    // Parameters by column: instance i reads x[k * rows + i].
    std::vector<std::uint32_t> indices;
    std::vector<double> x;
    for (std::uint32_t k = 0; k < 3; ++k) {
      for (std::uint32_t i = 0; i < rows; ++i) indices.push_back(k * rows + i);
      x.insert(x.end(), columns[k].begin(), columns[k].end());
    }
    KernelRunner runner(device_);
    runner.set(BufferRole::x, precision, x);
    runner.set(BufferRole::index_columns, indices);
    runner.set(BufferRole::results, precision, std::vector<double>(rows, -77));
    runner.run(generate(with_controls(request)),
               {.count = rows, .stride = rows, .out_stride = rows},
               groups_of(rows, request.workgroup_size));
    compare(info, precision, columns, runner.numbers(BufferRole::results, precision));
  }

  void compare(const ir::OpInfo& info, Precision precision,
               const std::vector<std::vector<double>>& columns, const std::vector<double>& got) {
    int shown = 0;
    for (std::size_t i = 0; i < got.size() && shown < 5; ++i) {
      const std::array<double, 3> at = {columns[0][i], columns[1][i], columns[2][i]};
      const ir::Deviation d = precision == Precision::f32 ? op_deviation<float>(info, at, got[i])
                                                          : op_deviation<double>(info, at, got[i]);
      if (d.within) continue;
      ++shown;
      ADD_FAILURE() << name(precision) << " " << info.name << "(" << columns[0][i] << ", "
                    << columns[1][i] << ", " << columns[2][i] << "): expected "
                    << static_cast<double>(d.expected) << ", got " << got[i] << ", " << d.ulp
                    << " ulp";
    }
  }
};

TEST_F(KernelOps, AgreeWithTheEvaluator) {
  for (const Precision precision : precisions()) {
    for (const ir::OpInfo& info : ir::kOps) {
      if (!info.leaf) sweep(info, precision);
    }
  }
}

TEST_F(KernelOps, LiteralsKeepTheirBits) {
  for (const Precision precision : precisions()) {
    const bool single = precision == Precision::f32;
    std::vector<double> values = {
        1,    -1,     1.0 / 3, 0.1,  1e22,      1e23,    16777217, 0.30000001192092896,
        1e-7, 3.4e38, 2.5e-38, 1e10, 123456789, -7.25e-5};
    if (keeps_specials(precision)) {
      values.insert(values.end(), {-0.0, 0.0, kInf, -kInf, kNotANumber, single ? 1e-45 : 5e-324,
                                   single ? 1e-40 : 1e-310});
    }
    std::mt19937_64 random(11);
    while (values.size() < 100) {
      const double value =
          single ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(random())))
                 : std::bit_cast<double>(random());
      if (std::isnormal(single ? static_cast<float>(value) : value)) values.push_back(value);
    }
    ir::Graph g;
    std::vector<ir::Id> outputs;
    for (const double value : values) outputs.push_back(g.literal(value));
    KernelRequest request;
    request.name = "literals";
    request.precision = precision;
    request.program = g.extract(outputs, {});
    KernelRunner runner(device_);
    runner.set(BufferRole::results, precision, std::vector<double>(values.size(), -77));
    runner.run(generate(with_controls(request)), {.count = 1, .out_stride = 1}, 1);
    const std::vector<double> got = runner.numbers(BufferRole::results, precision);
    const std::vector<double> want = rounded(values, precision);
    for (std::size_t k = 0; k < values.size(); ++k) {
      EXPECT_EQ(ulps(got[k], want[k], precision), 0)
          << name(precision) << " " << values[k] << " " << got[k];
    }
  }
}

// Leaves of every kind, from fixed and flexible columns, with offsets of both signs.
TEST_F(KernelOps, LeavesComeFromWhereTheLayoutSays) {
  ir::Graph g;
  ir::Id sum = g.leaf(Op::Parameter, 0);
  const std::pair<Op, std::uint32_t> leaves[] = {
      {Op::Parameter, 1}, {Op::Parameter, 2}, {Op::Tangent, 1}, {Op::Data, 0}, {Op::Data, 1},
      {Op::Uniform, 0},   {Op::Uniform, 1},   {Op::Seed, 0},    {Op::Seed, 1}};
  double factor = 2;
  for (const auto& [op, slot] : leaves) {
    sum = g.add(Op::Add, sum, g.add(Op::Mul, g.leaf(op, slot), g.literal(factor)));
    factor *= 2;
  }
  using Kind = codegen::IndexSource::Kind;
  using DataKind = codegen::DataSource::Kind;
  KernelRequest request;
  request.name = "leaves";
  request.precision = Precision::f32;
  request.program =
      g.extract(std::vector{sum}, {.parameters = 3, .data = 2, .uniforms = 2, .seeds = 2});
  request.layout = {
      .parameters = {{Kind::column, 0, 0}, {Kind::column, 1, -2}, {Kind::flexible, 4, 3, 7}},
      .uniforms = {{Kind::column, 2, 1}, {Kind::flexible, 3, 0, 2}},
      .data = {{DataKind::column, 0}, {DataKind::flexible, 1}},
      .index_columns = 5,
      .data_columns = 2};
  KernelRunner runner(device_);
  const auto count_up = [](std::size_t n, double from) {
    std::vector<double> out;
    for (std::size_t k = 0; k < n; ++k) out.push_back(from + static_cast<double>(k));
    return out;
  };
  const std::vector<double> x = count_up(20, 100), p = count_up(20, 200);
  runner.set(BufferRole::x, Precision::f32, x);
  runner.set(BufferRole::direction, Precision::f32, p);
  runner.set(BufferRole::seeds, Precision::f32, std::vector<double>{1, 2, 3, 4, 5, 6});
  runner.set(BufferRole::uniforms, Precision::f32, std::vector<double>{10, 20, 30, 40});
  runner.set(BufferRole::index_columns,
             std::vector<std::uint32_t>{5, 6, 0, 9, 8, 0, 1, 2, 0, 3, 10, 12});  // stride 3
  runner.set(BufferRole::data_columns, Precision::f32, std::vector<double>{0.25, 0.5, 0, 7, 9});
  runner.set(BufferRole::results, Precision::f32, std::vector<double>(5, -1));
  using Word = codegen::ColumnForm::Word;
  const codegen::KernelSource source = generate(request);
  // Each flexible column once as numbers by row and once as a shared number.
  struct Row {
    std::uint32_t index_form, index_step, data_form;
    double parameters[2], data[2];
  };
  for (const Row& row :
       {Row{codegen::form_shared(10), 0, codegen::form_shared(4), {13, 13}, {9, 9}},
        Row{codegen::form_by_row(10), 0, codegen::form_by_row(3), {13, 15}, {7, 9}},
        Row{codegen::form_shared(10), 3, codegen::form_shared(3), {13, 16}, {7, 7}},
        Row{codegen::form_shared(10), ~0u, codegen::form_shared(3), {13, 12}, {7, 7}}}) {
    runner.set({Word::index, 7}, row.index_form);
    runner.set({Word::step, 7}, row.index_step);
    runner.set({Word::index, 2}, codegen::form_shared(9));
    runner.set({Word::step, 2}, 0);
    runner.set({Word::data, 1}, row.data_form);
    runner.set(BufferRole::results, Precision::f32, std::vector<double>(5, -1));
    // Instances 0 and 1; seeds rows are out_stride = 3 apart; results from position 2 on.
    runner.run(source, {.count = 2, .stride = 3, .out_stride = 3, .out_first = 2}, 1);
    const auto value = [&](std::size_t i) {
      const std::size_t columns[3][2] = {{5, 6}, {9, 8}, {1, 2}};
      const double uniforms[] = {10, 20, 30, 40}, seeds[] = {1, 2, 3, 4, 5, 6},
                   data[] = {0.25, 0.5};
      return x[columns[0][i]] + 2 * x[columns[1][i] - 2] + 4 * (100 + row.parameters[i]) +
             8 * p[columns[1][i] - 2] + 16 * data[i] + 32 * row.data[i] +
             64 * uniforms[columns[2][i] + 1] + 128 * uniforms[3] + 256 * seeds[i] +
             512 * seeds[3 + i];
    };
    EXPECT_EQ(runner.numbers(BufferRole::results, Precision::f32),
              (std::vector<double>{-1, -1, value(0), value(1), -1}));
  }
}

}  // namespace
}  // namespace topograd::test
