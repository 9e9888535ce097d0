// JᵀJ or the Hessian of a whole problem as a sparse matrix with a fixed pattern.
#include "normal_equations.hpp"

#include "../../ir/error.hpp"
#include "../../runtime/linear/negative_part.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace topograd {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};
// Marks the position of a pair of different slots that read the same scalar: it counts twice.
constexpr std::uint32_t kTwice = std::uint32_t{1} << 31;

/// One use of a scalar: slot `slot` of an instance.
struct Use {
  std::uint32_t term, instance, slot;
};

std::size_t pair_count(std::size_t slots) { return slots * (slots + 1) / 2; }

/// Position of (s, t), s <= t, in a triangle packed by rows.
std::size_t packed(std::size_t s, std::size_t t, std::size_t slots) {
  return s * slots - s * (s + 1) / 2 + t;
}

/// Free index of each parameter slot of each instance of a term: [instance * slots + slot].
std::vector<std::uint32_t> free_indices(const runtime::Term& term,
                                        std::span<const std::uint32_t> to_free) {
  const std::size_t instances = term.batch->size();
  const std::uint32_t slots = term.batch->parameter_columns();
  std::vector<std::uint32_t> out(instances * slots);
  std::vector<std::uint32_t> column(instances);
  for (std::uint32_t s = 0; s < slots; ++s) {
    term.batch->copy_index_column(s, 0, column);
    for (std::size_t i = 0; i < instances; ++i) out[i * slots + s] = to_free[column[i]];
  }
  return out;
}

/// Instances that read both free and fixed scalars, ascending.
std::vector<std::uint32_t> partly_free(const std::vector<std::uint32_t>& indices,
                                       std::uint32_t slots) {
  std::vector<std::uint32_t> out;
  for (std::size_t first = 0; first < indices.size(); first += slots) {
    const auto begin = indices.begin() + static_cast<std::ptrdiff_t>(first);
    const auto constant = std::count(begin, begin + slots, kNone);
    if (constant != 0 && constant != slots)
      out.push_back(static_cast<std::uint32_t>(first / slots));
  }
  return out;
}

/// All uses, grouped by scalar: those of scalar c are uses[starts[c]] .. uses[starts[c + 1]].
struct Uses {
  std::vector<std::size_t> starts;
  std::vector<Use> uses;
};

Uses group_uses(const runtime::Model& model, const std::vector<std::vector<std::uint32_t>>& indices,
                std::size_t scalars) {
  Uses out;
  out.starts.assign(scalars + 1, 0);
  for (const std::vector<std::uint32_t>& term : indices) {
    for (const std::uint32_t c : term) {
      if (c != kNone) ++out.starts[c + 1];
    }
  }
  for (std::size_t c = 0; c < scalars; ++c) out.starts[c + 1] += out.starts[c];
  out.uses.resize(out.starts.back());
  std::vector<std::size_t> next(out.starts.begin(), out.starts.end() - 1);
  for (std::uint32_t t = 0; t < indices.size(); ++t) {
    const std::uint32_t slots = model.terms[t].batch->parameter_columns();
    for (std::size_t k = 0; k < indices[t].size(); ++k) {
      const std::uint32_t c = indices[t][k];
      if (c == kNone) continue;
      out.uses[next[c]++] = {t, static_cast<std::uint32_t>(k / slots),
                             static_cast<std::uint32_t>(k % slots)};
    }
  }
  return out;
}

}  // namespace

NormalEquations::NormalEquations(const runtime::Model& model, bool with_energies) {
  std::vector<std::uint32_t> to_free(model.scalars, kNone);
  for (std::uint32_t k = 0; k < model.scalars; ++k) {
    if (!model.constant.empty() && model.constant[k]) continue;
    to_free[k] = static_cast<std::uint32_t>(free_.size());
    free_.push_back(k);
  }
  std::vector<std::vector<std::uint32_t>> indices;
  for (const runtime::Term& term : model.terms) {
    if (term.energy && !with_energies) {
      indices.emplace_back();
      terms_.emplace_back();
      continue;
    }
    indices.push_back(free_indices(term, to_free));
    const std::uint32_t slots = term.batch->parameter_columns();
    if (pair_count(slots) >= kTwice && term.batch->size() > 0) {
      throw Error(ErrorCode::Unsupported,
                  "cholesky: " + term.name + " reads " + std::to_string(slots) +
                      " unknowns, whose part of JᵀJ has 2^31 entries or more; use pcg");
    }
    const auto rows = static_cast<std::uint32_t>(term.topology->program.outputs.size());
    terms_.push_back({.rows = rows, .slots = slots});
    terms_.back().pairs.assign(term.batch->size() * pair_count(slots), kNone);
    terms_.back().values.resize(term.batch->size() * rows * slots);
    if (with_energies) terms_.back().partly_free = partly_free(indices.back(), slots);
  }
  find_pattern(model, indices);
  values_.assign(rows_.size(), 0.0);
}

void NormalEquations::find_pattern(const runtime::Model& model,
                                   const std::vector<std::vector<std::uint32_t>>& indices) {
  const Uses uses = group_uses(model, indices, free_.size());
  std::vector<std::uint32_t> seen(free_.size(), kNone), at(free_.size());
  starts_.push_back(0);
  for (std::uint32_t c = 0; c < free_.size(); ++c) {
    const std::span column(uses.uses.data() + uses.starts[c], uses.starts[c + 1] - uses.starts[c]);
    const auto neighbours = [&](const Use& use) {
      const std::uint32_t slots = terms_[use.term].slots;
      return std::span(indices[use.term].data() + std::size_t{use.instance} * slots, slots);
    };
    const auto first = static_cast<std::ptrdiff_t>(rows_.size());
    rows_.push_back(static_cast<std::int32_t>(c));
    for (const Use& use : column) {
      for (const std::uint32_t r : neighbours(use)) {
        if (r == kNone || r <= c || std::exchange(seen[r], c) == c) continue;
        rows_.push_back(static_cast<std::int32_t>(r));
      }
    }
    if (rows_.size() >= kTwice) {
      throw Error(ErrorCode::Unsupported, "cholesky: JᵀJ has 2^31 entries or more; use pcg");
    }
    std::sort(rows_.begin() + first, rows_.end());
    for (std::size_t k = first; k < rows_.size(); ++k) at[rows_[k]] = static_cast<std::uint32_t>(k);
    for (const Use& use : column) {
      TermPositions& term = terms_[use.term];
      const std::span<const std::uint32_t> others = neighbours(use);
      for (std::uint32_t t = 0; t < term.slots; ++t) {
        const std::uint32_t r = others[t];
        if (r == kNone || r < c || (r == c && t < use.slot)) continue;
        const std::size_t pair = packed(std::min(use.slot, t), std::max(use.slot, t), term.slots);
        term.pairs[use.instance * pair_count(term.slots) + pair] =
            at[r] | (r == c && t != use.slot ? kTwice : 0);
      }
    }
    starts_.push_back(static_cast<std::int32_t>(rows_.size()));
  }
}

void NormalEquations::refresh(runtime::Engine& engine) {
  std::fill(values_.begin(), values_.end(), 0.0);
  for (std::size_t t = 0; t < terms_.size(); ++t) {
    if (terms_[t].pairs.empty()) continue;
    engine.jacobian(t, terms_[t].values);
    add_squares(terms_[t]);
  }
}

void NormalEquations::refresh_hessian(runtime::Engine& engine, bool project) {
  std::fill(values_.begin(), values_.end(), 0.0);
  for (std::size_t t = 0; t < terms_.size(); ++t) {
    terms_[t].values.resize(terms_[t].pairs.size());
    runtime::second_derivatives(engine).hessian(t, project, terms_[t].values);
    if (project) project_free_parts(engine, t);
    add_hessians(terms_[t]);
  }
}

void NormalEquations::project_free_parts(runtime::Engine& engine, std::size_t t) {
  TermPositions& term = terms_[t];
  if (term.partly_free.empty()) return;
  const std::size_t size = pair_count(term.slots);
  std::vector<double> whole(term.values.size());
  runtime::second_derivatives(engine).hessian(t, false, whole);
  std::vector<std::size_t> places;  // places of the packed free part in the instances' numbers
  std::vector<double> part;
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver;
  for (const std::uint32_t i : term.partly_free) {
    const auto is_free = [&](std::size_t s) {
      return term.pairs[i * size + packed(s, s, term.slots)] != kNone;
    };
    places.clear();
    part.clear();
    Eigen::Index rows = 0;
    for (std::size_t s = 0; s < term.slots; ++s) {
      if (!is_free(s)) continue;
      ++rows;
      for (std::size_t other = s; other < term.slots; ++other)
        if (is_free(other)) places.push_back(i * size + packed(s, other, term.slots));
    }
    for (const std::size_t place : places) part.push_back(whole[place]);
    runtime::remove_negative_part(rows, part.data(), solver);
    for (std::size_t k = 0; k < places.size(); ++k) term.values[places[k]] = part[k];
  }
}

void NormalEquations::add_hessians(const TermPositions& term) {
  for (std::size_t k = 0; k < term.pairs.size(); ++k) {
    const std::uint32_t position = term.pairs[k];
    if (position == kNone) continue;
    values_[position & ~kTwice] += position & kTwice ? 2 * term.values[k] : term.values[k];
  }
}

void NormalEquations::add_squares(const TermPositions& term) {
  const std::size_t n = term.slots, pairs = pair_count(n);
  const std::size_t instances = pairs == 0 ? 0 : term.pairs.size() / pairs;
  for (std::size_t i = 0; i < instances; ++i) {
    const double* jacobian = term.values.data() + i * term.rows * n;
    const std::uint32_t* position = term.pairs.data() + i * pairs;
    for (std::size_t s = 0; s < n; ++s) {
      for (std::size_t t = s; t < n; ++t, ++position) {
        if (*position == kNone) continue;
        double sum = 0;
        for (std::size_t row = 0; row < term.rows; ++row) {
          sum += jacobian[row * n + s] * jacobian[row * n + t];
        }
        values_[*position & ~kTwice] += *position & kTwice ? 2 * sum : sum;
      }
    }
  }
}

}  // namespace topograd
