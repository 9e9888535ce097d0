// Springs between random vertices, on host and device.
#pragma once

#include <topograd/ir/evaluate.hpp>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "codegen/kernel_runner.hpp"

namespace topograd::test {

/// Springs of random rest lengths between random vertices, numbers rounded to a precision.
struct SpringSet {
  std::uint32_t count = 0, vertices = 0;
  std::vector<std::uint32_t> a, b;  // index of the first coordinate
  std::vector<double> rest, x, p;

  SpringSet(std::uint32_t springs, codegen::Precision precision)
      : count(springs), vertices(springs / 3 + 2) {
    std::mt19937 random(springs);
    std::uniform_real_distribution<double> number(-1, 1);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto from = static_cast<std::uint32_t>(random() % vertices);
      const auto to = (from + 1 + static_cast<std::uint32_t>(random() % (vertices - 1))) % vertices;
      a.push_back(3 * from);
      b.push_back(3 * to);
      rest.push_back(number(random));
    }
    for (std::uint32_t k = 0; k < 3 * vertices; ++k) {
      x.push_back(number(random));
      p.push_back(number(random));
    }
    rest = rounded(rest, precision);
    x = rounded(x, precision);
    p = rounded(p, precision);
  }

  /// Outputs of a program for one spring, in long double.
  std::vector<double> evaluate(const ir::Program& program, std::uint32_t i) const {
    std::vector<long double> parameters, tangents;
    for (const std::uint32_t first : {a[i], b[i]}) {
      for (std::uint32_t k = 0; k < 3; ++k) {
        parameters.push_back(x[first + k]);
        tangents.push_back(p[first + k]);
      }
    }
    const std::vector<long double> data = {rest[i]};
    const auto values = ir::evaluate<long double>(program, {.parameters = parameters,
                                                            .data = data,
                                                            .uniforms = {},
                                                            .tangents = tangents,
                                                            .seeds = {}});
    return {values.begin(), values.end()};
  }

  /// Sums of six outputs by the coordinates that they belong to.
  std::vector<double> sums(const ir::Program& program) const {
    std::vector<double> out(x.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::vector<double> values = evaluate(program, i);
      for (std::uint32_t k = 0; k < 3; ++k) {
        out[a[i] + k] += values[k];
        out[b[i] + k] += values[k + 3];
      }
    }
    return out;
  }

  void set_instances(KernelRunner& runner, codegen::Precision precision) const {
    std::vector<std::uint32_t> columns = a;
    columns.insert(columns.end(), b.begin(), b.end());
    runner.set(codegen::BufferRole::index_columns, columns);
    runner.set(codegen::BufferRole::data_columns, precision, rest);
    set_points(runner, precision);
  }

  void set_points(KernelRunner& runner, codegen::Precision precision) const {
    runner.set(codegen::BufferRole::x, precision, x);
    runner.set(codegen::BufferRole::direction, precision, p);
  }

  /// Entries by owner: first those whose end a is the owner, then those whose end b is.
  void set_entries(KernelRunner& runner, codegen::Precision precision) const {
    std::vector<std::uint32_t> starts = {0}, others, entries, owners;
    std::vector<double> rests;
    for (std::uint32_t owner = 0; owner < vertices; ++owner) {
      for (const auto& [own, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
        for (std::uint32_t i = 0; i < count; ++i) {
          if ((*own)[i] != 3 * owner) continue;
          others.push_back((*other)[i]);
          rests.push_back(rest[i]);
          entries.push_back(i);
        }
        starts.push_back(static_cast<std::uint32_t>(others.size()));
      }
      owners.push_back(owner);
    }
    runner.set(codegen::BufferRole::index_columns, others);
    runner.set(codegen::BufferRole::data_columns, precision, rests);
    runner.set(codegen::BufferRole::starts, starts);
    runner.set(codegen::BufferRole::owners, owners);
    runner.set(codegen::BufferRole::outputs, owners);
    runner.set(codegen::BufferRole::entries, entries);
    set_points(runner, precision);
  }
};

}  // namespace topograd::test
