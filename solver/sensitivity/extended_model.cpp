// Rewrites topologies, and copies their columns.
#include "extended_model.hpp"

#include "../../ir/error.hpp"
#include "../../ir/program.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

namespace topograd {
namespace {

using Slots = std::vector<std::uint32_t>;

/// The data and uniform slots of a topology that become parameters.
struct Moved {
  Slots data, uniforms;
  bool any() const { return !data.empty() || !uniforms.empty(); }
};

/// A rewritten topology, and the columns of the first batch that its slots read: column c of the
/// parameters is parameter c, then data column c − P, then uniform column c − P − D.
struct Rewritten {
  std::unique_ptr<ir::Topology> topology;
  Slots parameters, data, uniforms;
};

Rewritten rewrite(const ir::Program& program, const Moved& moved, std::uint32_t hidden_uniforms) {
  const ir::LeafCounts before = program.leaves;
  ir::LeafCounts leaves = before;
  // By old slot: the new one, of a parameter where it has moved.
  const auto renumber = [&](std::uint32_t count, const Slots& gone, std::uint32_t& left,
                            Slots& columns) {
    Slots numbers(count);
    left = 0;
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      if (std::ranges::binary_search(gone, slot)) {
        numbers[slot] = leaves.parameters++;
      } else {
        numbers[slot] = left++;
        columns.push_back(slot);
      }
    }
    return numbers;
  };
  Slots parameters(before.parameters), data, uniforms;
  std::iota(parameters.begin(), parameters.end(), 0u);
  const Slots new_data = renumber(before.data, moved.data, leaves.data, data);
  for (const std::uint32_t slot : moved.data) parameters.push_back(before.parameters + slot);
  const Slots new_uniform = renumber(before.uniforms, moved.uniforms, leaves.uniforms, uniforms);
  for (const std::uint32_t slot : moved.uniforms)
    parameters.push_back(before.parameters + before.data + slot);

  ir::Graph graph;
  std::vector<ir::Id> map;
  for (const ir::Node& node : program.nodes) {
    const bool is_data = node.op == ir::Op::Data, is_uniform = node.op == ir::Op::Uniform;
    if (!is_data && !is_uniform) {
      map.push_back(graph.copy(node, map));
      continue;
    }
    const bool moves =
        std::ranges::binary_search(is_data ? moved.data : moved.uniforms, node.slot());
    map.push_back(graph.leaf(moves ? ir::Op::Parameter : node.op,
                             (is_data ? new_data : new_uniform)[node.slot()]));
  }
  std::vector<ir::Id> outputs;
  for (const ir::Id output : program.outputs) outputs.push_back(map[output]);
  std::vector<ir::Guard> guards;
  for (const ir::Guard& guard : program.guards)
    guards.push_back({map[guard.condition], guard.expected});
  // Uniforms of losses stay the last ones (runtime::Term::loss); kernels are found by the hash of
  // the canonical form.
  leaves.uniforms -= hidden_uniforms;
  ir::Canonical canonical = ir::canonicalize(graph.extract(outputs, leaves, guards));
  canonical.topology.program.leaves.uniforms += hidden_uniforms;
  for (std::uint32_t k = 0; k < hidden_uniforms; ++k)
    canonical.uniforms.push_back(leaves.uniforms + k);

  const auto in_order = [](const Slots& order, const Slots& columns) {
    Slots out;
    for (const std::uint32_t slot : order) out.push_back(columns[slot]);
    return out;
  };
  return {.topology = std::make_unique<ir::Topology>(std::move(canonical.topology)),
          .parameters = in_order(canonical.parameters, parameters),
          .data = in_order(canonical.data, data),
          .uniforms = in_order(canonical.uniforms, uniforms)};
}

class Extension {
 public:
  Extension(const ProblemModel& base, const NumberSources& sources, const std::vector<bool>& chosen,
            std::span<const double> x)
      : base_(base), sources_(sources), chosen_(chosen) {
    out_.point.assign(x.begin(), x.end());
    const std::span<const double> data = sources.data();
    out_.point.insert(out_.point.end(), data.begin(), data.end());
    first_data_ = x.size();
    first_uniform_ = out_.point.size();
    for (const std::uint32_t uniform : sources.uniforms()) {
      rank_[uniform] = static_cast<std::uint32_t>(out_.point.size() - first_uniform_);
      out_.point.push_back(base.model.uniforms[uniform]);
    }
  }

  ExtendedModel run() {
    ProblemModel& model = out_.model;
    model.topologies = base_.topologies;
    model.problem = base_.problem;
    model.with_losses = base_.with_losses;
    model.constraints = base_.constraints;
    model.model = base_.model;
    for (std::size_t t = 0; t < base_.topologies.size(); ++t) extend(t);
    const std::size_t scalars = out_.point.size();
    if (scalars >= std::numeric_limits<std::uint32_t>::max())
      throw Error(ErrorCode::Unsupported,
                  "sensitivity: expected fewer than 2^32 - 1 unknowns and numbers, got " +
                      std::to_string(scalars));
    runtime::Model& to = model.model;
    if (scalars > to.scalars)
      to.arrays.push_back({.offset = to.scalars, .width = 1, .blocks = scalars - to.scalars});
    to.scalars = scalars;
    to.constant.clear();
    to.lower.clear();
    to.upper.clear();
    to.manifolds = nullptr;
    return std::move(out_);
  }

 private:
  Moved moved_slots(std::size_t t) const {
    const std::size_t topology = base_.topologies[t];
    const ir::Batch& batch = *base_.model.terms[t].batch;
    Moved out;
    const std::uint32_t data = batch.data_columns() - sources_.hidden_data(topology);
    for (std::uint32_t c = 0; c < data && sources_.reads_arrays(topology); ++c) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const std::uint32_t entry = sources_.source(topology, i, c);
        if (entry == NumberSources::kOwn || !chosen_[entry]) continue;
        out.data.push_back(c);
        break;
      }
    }
    const std::uint32_t uniforms = batch.uniform_columns() - sources_.hidden_uniforms(topology);
    for (std::uint32_t c = 0; c < uniforms; ++c) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const std::uint32_t uniform = batch.index(i, batch.parameter_columns() + c);
        if (!chosen_[first_uniform_ - first_data_ + rank_.at(uniform)]) continue;
        out.uniforms.push_back(c);
        break;
      }
    }
    return out;
  }

  void extend(std::size_t t) {
    runtime::Term& term = out_.model.model.terms[t];
    const std::size_t topology = base_.topologies[t];
    const ir::Batch& from = *base_.model.terms[t].batch;
    const Moved moved = moved_slots(t);
    const bool constrains = is_constraint(base_.problem->kind(topology));
    const std::uint32_t hidden = constrains ? 0 : sources_.hidden_uniforms(topology);
    Rewritten to;
    if (moved.any()) {
      to = rewrite(term.topology->program, moved, hidden);
      out_.model.own_topologies.push_back(std::move(to.topology));
      term.topology = out_.model.own_topologies.back().get();
    } else {
      to.parameters.resize(from.parameter_columns());
      to.data.resize(from.data_columns());
      to.uniforms.resize(from.uniform_columns());
      for (Slots* slots : {&to.parameters, &to.data, &to.uniforms})
        std::iota(slots->begin(), slots->end(), 0u);
    }
    term.batch = &copy(topology, from, to);
  }

  ir::Batch& copy(std::size_t topology, const ir::Batch& from, const Rewritten& to) {
    ir::Batch& out = out_.batches.emplace_back(static_cast<std::uint32_t>(to.parameters.size()),
                                               static_cast<std::uint32_t>(to.uniforms.size()),
                                               static_cast<std::uint32_t>(to.data.size()));
    for (const ir::Batch::NewRows& rows : out.append_rows(from.size())) {
      for (std::size_t i = 0; i < rows.count; ++i) rows.row[i] = from.residual_row(rows.first + i);
      std::uint32_t* index = rows.index;
      for (const std::uint32_t column : to.parameters) {
        if (column < from.parameter_columns()) {
          from.copy_index_column(column, rows.first, {index, rows.count});
        } else {
          for (std::size_t i = 0; i < rows.count; ++i)
            index[i] = number(topology, from, rows.first + i, column - from.parameter_columns());
        }
        index += rows.stride;
      }
      for (const std::uint32_t column : to.uniforms) {
        from.copy_index_column(from.parameter_columns() + column, rows.first, {index, rows.count});
        index += rows.stride;
      }
      double* data = rows.data;
      for (const std::uint32_t column : to.data) {
        from.copy_data_column(column, rows.first, {data, rows.count});
        data += rows.stride;
      }
    }
    return out;
  }

  /// The unknown that stands for the number in a data column, or a uniform column after these.
  std::uint32_t number(std::size_t topology, const ir::Batch& from, std::size_t instance,
                       std::uint32_t column) {
    const std::uint32_t data = from.data_columns();
    if (column >= data) {
      const std::uint32_t uniform = from.index(instance, from.parameter_columns() + column - data);
      return static_cast<std::uint32_t>(first_uniform_ + rank_.at(uniform));
    }
    const std::uint32_t entry = sources_.source(topology, instance, column);
    if (entry != NumberSources::kOwn) return static_cast<std::uint32_t>(first_data_ + entry);
    out_.point.push_back(from.data(instance, column));
    return static_cast<std::uint32_t>(out_.point.size() - 1);
  }

  const ProblemModel& base_;
  const NumberSources& sources_;
  const std::vector<bool>& chosen_;
  ExtendedModel out_;
  std::size_t first_data_ = 0, first_uniform_ = 0;
  std::map<std::uint32_t, std::uint32_t> rank_;  // of users' uniforms
};

}  // namespace

ExtendedModel extend_model(const ProblemModel& base, const NumberSources& sources,
                           const std::vector<bool>& chosen, std::span<const double> x) {
  return Extension(base, sources, chosen, x).run();
}

}  // namespace topograd
