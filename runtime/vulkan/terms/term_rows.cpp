// Rows of terms on their way to the host, and seeds on their way from it.
#include "term_rows.hpp"

#include <algorithm>
#include <string>

#include "../../../ir/error.hpp"

namespace topograd::runtime::vulkan {
namespace {

/// Calls visit(position in rows, value index) for each row of each instance of a term.
template <class Visit>
void each_row(const DeviceTerm& term, Visit visit) {
  const std::uint32_t m = term.outputs();
  for (std::size_t i = 0; i < term.instances(); ++i) {
    const std::uint64_t row = term.batch().residual_row(i);
    for (std::uint32_t k = 0; k < m; ++k) visit(row + k, i * m + k);
  }
}

}  // namespace

const Buffer& TermRows::result(const CommandList& list, Pass pass, std::size_t term) {
  return list.declared() != nullptr ? no_buffer() : result(pass, term);
}

const Buffer& TermRows::result(Pass pass, std::size_t term) {
  std::vector<Buffer>& results = (*results_)[pass];
  results.resize(terms_.size());
  Buffer& rows = results[term];
  if (!rows) rows = make_numbers(context_, terms_[term]->stored_size(pass), "rows");
  return rows;
}

void TermRows::record_readbacks(CommandList& list, Pass pass, std::vector<Readback>& readbacks,
                                bool own) {
  readbacks.resize(terms_.size());
  list.barrier();
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (terms_.takes_part(k, pass)) readbacks[k].record(context_, list, result(list, pass, k), own);
  }
}

void TermRows::copy(Pass pass, const std::vector<Readback>& readbacks, const Submission& after,
                    std::span<double> out) {
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, pass)) continue;
    std::vector<double> stored(terms_[k]->stored_size(pass)), values(stored.size());
    readbacks[k].read(context_, after, result(pass, k), context_.wide(), stored);
    terms_[k]->columns().from_device_order(stored, values, terms_[k]->outputs());
    each_row(*terms_[k], [&](std::uint64_t row, std::size_t at) { out[row] = values[at]; });
  }
}

void TermRows::read(Pass pass, const Operands& operands, std::span<double> out) {
  std::vector<Readback>& readbacks = (*readbacks_)[pass];
  recorder_.evaluate(std::string(name(pass)), [&](CommandList& list) {
    record(list, pass, operands);
    record_readbacks(list, pass, readbacks, false);
  });
  copy(pass, readbacks, recorder_.last(), out);
}

void TermRows::jacobian(std::size_t term, std::span<double> values) {
  DeviceTerm* at = terms_.at(term).get();
  if (at == nullptr) return;
  std::vector<Readback>& readbacks = (*readbacks_)[Pass::jacobian];
  readbacks.resize(terms_.size());
  const Buffer& rows = result(Pass::jacobian, term);
  recorder_.evaluate("jacobian_" + std::to_string(term), [&](CommandList& list) {
    at->record_store(list, Pass::jacobian, terms_.operands(v_.x), rows);
    list.barrier();
    readbacks[term].record(context_, list, rows);
  });
  std::vector<double> stored(at->stored_size(Pass::jacobian));
  readbacks[term].read(context_, recorder_.last(), rows, context_.wide(), stored);
  const std::size_t entries = std::size_t{at->outputs()} * at->slots();
  if (problem_.order().identity()) {
    at->columns().from_device_order(stored, values, static_cast<std::uint32_t>(entries));
    return;
  }
  std::vector<double> ordered(stored.size());
  at->columns().from_device_order(stored, ordered, static_cast<std::uint32_t>(entries));
  for (std::size_t i = 0; i < at->instances(); ++i) {
    std::copy_n(&ordered[i * entries], entries, &values[problem_.row(term, i) * entries]);
  }
}

Buffer& TermRows::seeds(std::size_t k) {
  if (!(*seeds_)[k])
    (*seeds_)[k] = make_numbers(context_, terms_[k]->stored_size(Pass::residual), "seeds");
  return (*seeds_)[k];
}

void TermRows::write_seeds(std::size_t k, std::span<const double> seeds) {
  const DeviceTerm& term = *terms_[k];
  std::vector<double> values(term.stored_size(Pass::residual)), stored(values.size());
  each_row(term, [&](std::uint64_t row, std::size_t at) { values[at] = seeds[row]; });
  term.columns().to_device_order(values, stored, term.outputs());
  write_numbers(context_, this->seeds(k), stored);
}

void TermRows::vjp(std::span<const double> seeds, std::span<double> out) {
  // Each term has seeds of its own; the terms of its slots come back and are summed in fixed order
  // here.
  seeds_->resize(terms_.size());
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (terms_.takes_part(k, Pass::vjp)) write_seeds(k, seeds);
  }
  std::vector<Readback>& readbacks = (*readbacks_)[Pass::vjp];
  recorder_.evaluate("vjp", [&](CommandList& list) {
    record_vjp(list);
    record_readbacks(list, Pass::vjp, readbacks, false);
  });
  std::vector<double> sums(out.size(), 0.0);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, Pass::vjp)) continue;
    const DeviceTerm& term = *terms_[k];
    std::vector<double> stored(term.stored_size(Pass::vjp)), values(stored.size());
    readbacks[k].read(context_, recorder_.last(), result(Pass::vjp, k), context_.wide(), stored);
    term.columns().from_device_order(stored, values, term.slots());
    for (std::size_t i = 0; i < term.instances(); ++i) {
      for (std::uint32_t slot = 0; slot < term.slots(); ++slot) {
        sums[term.batch().index(i, slot)] += values[i * term.slots() + slot];
      }
    }
  }
  problem_.undo(sums, out);
}

void TermRows::record(CommandList& list, Pass pass, const Operands& with) {
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (terms_.takes_part(k, pass))
      terms_[k]->record_store(list, pass, with, result(list, pass, k));
  }
}

std::vector<std::uint32_t> TermRows::failed_instances(std::size_t term, Guards::At at) {
  DeviceTerm* device_term = terms_.at(term).get();
  if (device_term == nullptr || !device_term->has_guards()) return {};
  const std::uint64_t size = device_term->stored_size(Pass::guards);
  const std::string name = at == Guards::At::point ? "failed_guards_" : "failed_trial_guards_";
  const Buffer& flags = result(Pass::guards, term);
  recorder_.evaluate(name + std::to_string(term), [&](CommandList& list) {
    device_term->record_store(list, Pass::guards,
                              terms_.operands(at == Guards::At::point ? v_.x : v_.trial), flags);
  });
  std::vector<double> stored(size), fails(size);
  read_numbers(context_, flags, stored);
  device_term->columns().from_device_order(stored, fails, 1);
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < fails.size(); ++i) {
    if (fails[i] == 0) continue;
    out.push_back(static_cast<std::uint32_t>(problem_.row(term, i)));
  }
  std::sort(out.begin(), out.end());
  return out;
}

void TermRows::record_vjp(CommandList& list) {
  seeds_->resize(terms_.size());
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, Pass::vjp)) continue;
    Operands with_seeds = terms_.operands(v_.x);
    with_seeds.seeds = list.declared() != nullptr ? &no_buffer() : &seeds(k);
    terms_[k]->record_store(list, Pass::vjp, with_seeds, result(list, Pass::vjp, k));
  }
}

namespace {

using codegen::BufferRole;

/// Bytes of Hessians on the device at a time: enough to fill it, little beside what it has.
constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20;

}  // namespace

void TermHessians::record_projection(CommandList& list, std::uint32_t width, std::uint32_t count,
                                     const Buffer& blocks) {
  if (!projection_ && list.declared() != nullptr)
    projection_ = load_kernel(context_, codegen::ProjectionRequest{});
  if (!projection_) throw Error(ErrorCode::Internal, "the projection of Hessians was not declared");
  BindingTable table;
  table.set(BufferRole::blocks, blocks);
  table.set(BufferRole::rotated, rotated_);
  table.set(BufferRole::eigenvectors, eigenvectors_);
  const std::uint32_t group = projection_.workgroup_size;
  const auto step = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::max<std::uint64_t>(context_.max_invocations(), 1), count));
  for (codegen::ProjectionConstants run :
       codegen::projection_dispatches({.stride = count, .width = width})) {
    list.barrier();
    for (run.first = 0; run.first < count; run.first = run.count) {
      const std::uint32_t n = std::min(step, count - run.first);
      run.count = run.first + n;
      dispatch(context_, list, projection_, table, run, (n + group - 1) / group);
    }
  }
}

void TermHessians::read(std::size_t term, bool project, std::span<double> values) {
  DeviceTerm* at = terms_.at(term).get();
  if (at == nullptr) return;
  const std::uint32_t n = at->slots(), size = n * (n + 1) / 2;
  // The eigenvectors are the widest rows.
  const std::uint64_t bytes = std::uint64_t{context_.element_bytes()} * (project ? n * n : size);
  const std::uint64_t most = std::min(context_.max_range(), kPieceBytes) / bytes;
  if (most == 0) {
    throw Error(ErrorCode::Unsupported, "vulkan: Hessians of " + std::to_string(n) +
                                            " unknowns expect a storage buffer range of " +
                                            std::to_string(bytes) + " bytes at least, got " +
                                            std::to_string(context_.max_range()));
  }
  const auto instances = static_cast<std::uint32_t>(at->instances());
  const std::uint64_t piece = std::min<std::uint64_t>(most, instances);
  const Buffer blocks = make_numbers(context_, piece * size, "hessians");
  if (project) {
    rotated_ = make_numbers(context_, piece * size, "rotated");
    eigenvectors_ = make_numbers(context_, piece * n * n, "eigenvectors");
  }
  std::uint32_t first = 0, count = 0;
  const auto record = [&](CommandList& list) {
    at->record_hessians(list, terms_.operands(v_.x), first, count, blocks);
    if (project) record_projection(list, n, count, blocks);
  };
  std::vector<double> stored;
  for (; first < instances; first += count) {
    count = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(piece, at->columns().chunk_end(first) - first));
    if (first == 0) Recorder::make(record);
    recorder_.submit(recorder_.make_list("hessian", record));
    stored.resize(std::size_t{count} * size);
    read_numbers(context_, blocks, stored);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::size_t instance = problem_.row(term, first + i);
      for (std::uint32_t k = 0; k < size; ++k)
        values[instance * size + k] = stored[std::size_t{k} * count + i];
    }
  }
  rotated_ = {};
  eigenvectors_ = {};
}

}  // namespace topograd::runtime::vulkan
