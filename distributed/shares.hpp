// The residuals of a problem of which each rank has added a share.
#pragma once

#include "communicator.hpp"
#include "local_model.hpp"

#include "../solver/model/model.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::distributed {

/// The topologies of all ranks in one order: by the first rank that has one, then by its order
/// there. They are matched by their structure and the program of their losses.
class Shares final : public ModelShares {
 public:
  /// Brings a model of this rank's share to the topologies of all ranks. Collective.
  ///
  ///   ranks  outlives it
  ///   model  in: of this rank; out: of all, as in ProblemModel::shares, which the caller sets
  Shares(const Communicator& ranks, ProblemModel& model);

  std::uint64_t instances(std::size_t term) const override { return instances_[term]; }
  std::uint64_t first_instance(std::size_t term) const override { return first_instance_[term]; }
  std::uint64_t first_row(bool energies) const override {
    return energies ? first_energy_ : first_residual_;
  }
  std::string first_text(const std::string& here) const override;
  void join(std::span<std::uint8_t> flags) const override;
  ir::Hash128 sum(ir::Hash128 here) const override;

  /// The uniforms of all ranks, equal ones once, and the index of each of this rank's. Those of a
  /// loss are one.
  std::span<const double> uniforms() const { return uniforms_; }
  std::uint32_t uniform(std::uint32_t here) const { return uniform_[here]; }

 private:
  struct Entry;
  std::vector<Entry> own_entries(const ProblemModel& model) const;
  std::vector<Entry> all_entries(const std::vector<Entry>& own) const;
  void take_terms(ProblemModel& model, const std::vector<Entry>& own,
                  const std::vector<Entry>& all);
  void count(ProblemModel& model);
  void join_uniforms(const runtime::Model& model);

  const Communicator& ranks_;
  std::vector<std::uint64_t> instances_, first_instance_;  // by term
  std::uint64_t first_residual_ = 0, first_energy_ = 0;
  std::vector<double> uniforms_;
  std::vector<std::uint32_t> uniform_;
  // They belong to terms of which this rank has no instances.
  std::vector<std::unique_ptr<const ir::Topology>> topologies_;
  std::vector<std::unique_ptr<const ir::Program>> losses_;
  std::vector<std::unique_ptr<const ir::Batch>> batches_;
};

/// The graph of the residuals of all ranks, with its edges on rank 0 alone. Collective.
///
///   of_share  of this rank's residuals
ChunkGraph joined_graph(const Communicator& ranks, const ChunkGraph& of_share);

/// The part of this rank, as local_model() cuts it out of the whole: each rank sends its residuals
/// to the ranks that own one of their blocks. Collective.
///
///   model  with the shares
/// Cost: two passes over the share's columns. A few MB of buffers beside the part.
LocalModel part_of_shares(const Communicator& ranks, const runtime::Model& model,
                          const Shares& shares, std::span<const runtime::Chunk> chunks,
                          std::span<const int> rank_of_chunk);

}  // namespace topograd::distributed
