// Springs between random vertices, on host and device.
#pragma once

#include "../../ir/evaluate.hpp"

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "kernel_runner.hpp"

namespace topograd::test {

/// Springs of random rest lengths between random vertices, numbers rounded to a precision. A runner
/// has the set() of KernelRunner.
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

  /// Sums of six outputs by coordinate.
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

  template <class Runner>
  void set_instances(Runner& runner, codegen::Precision precision) const {
    std::vector<std::uint32_t> columns = a;
    columns.insert(columns.end(), b.begin(), b.end());
    runner.set(codegen::BufferRole::index_columns, columns);
    runner.set(codegen::BufferRole::data_columns, precision, rest);
    set_points(runner, precision);
  }

  template <class Runner>
  void set_points(Runner& runner, codegen::Precision precision) const {
    runner.set(codegen::BufferRole::x, precision, x);
    runner.set(codegen::BufferRole::direction, precision, p);
  }

  /// Entries by block: first those with the block as end a, then those with it as end b.
  template <class Runner>
  void set_entries(Runner& runner, codegen::Precision precision) const {
    const Entries all = entries(0, count, false);
    runner.set(codegen::BufferRole::index_columns, all.others);
    runner.set(codegen::BufferRole::data_columns, precision, all.rests);
    runner.set(codegen::BufferRole::starts, all.starts);
    runner.set(codegen::BufferRole::owners, all.blocks);
    runner.set(codegen::BufferRole::outputs, all.blocks);
    runner.set(codegen::BufferRole::entries, all.instances);
    set_points(runner, precision);
  }

  /// The same, but springs from `first` on are fused terms of another batch.
  void set_entries_and_fused_terms(KernelRunner& runner, codegen::Precision precision,
                                   std::uint32_t first) const {
    set_entries(runner, precision);
    const Entries hosts = entries(0, first, false), fused_terms = entries(first, count, true);
    runner.set(codegen::BufferRole::index_columns, hosts.others);
    runner.set(codegen::BufferRole::data_columns, precision, hosts.rests);
    runner.set(codegen::BufferRole::starts, hosts.starts);
    runner.set(codegen::BufferRole::fused_index_columns, fused_terms.others);
    runner.set(codegen::BufferRole::fused_data_columns, precision, fused_terms.rests);
    runner.set(codegen::BufferRole::fused_starts, fused_terms.starts);
    std::vector<std::uint32_t> words((vertices + 31) / 32 * 2, 0);
    for (std::uint32_t k = 0; k < fused_terms.blocks.size(); ++k) {
      const std::uint32_t block = fused_terms.blocks[k];
      words[block / 32 * 2] += 1u << block % 32;
      for (std::size_t w = block / 32 * 2 + 3; w < words.size(); w += 2) ++words[w];
    }
    runner.set(codegen::BufferRole::fused_owners, words);
  }

 private:
  struct Entries {
    std::vector<std::uint32_t> starts = {0}, others, instances, blocks;
    std::vector<double> rests;
  };

  /// Entries of springs [first, last), for all blocks or for those with any.
  Entries entries(std::uint32_t first, std::uint32_t last, bool touched) const {
    Entries out;
    for (std::uint32_t block = 0; block < vertices; ++block) {
      const Entries before = out;
      for (const auto& [own, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
        for (std::uint32_t i = first; i < last; ++i) {
          if ((*own)[i] != 3 * block) continue;
          out.others.push_back((*other)[i]);
          out.rests.push_back(rest[i]);
          out.instances.push_back(i);
        }
        out.starts.push_back(static_cast<std::uint32_t>(out.others.size()));
      }
      out.blocks.push_back(block);
      if (touched && out.others.size() == before.others.size()) out = before;
    }
    return out;
  }
};

}  // namespace topograd::test
