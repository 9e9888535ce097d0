// Sums over all terms of a model: gradients, products, diagonal blocks, and values beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "../gather/gather_set.hpp"
#include "sum_choices.hpp"
#include "term_rows.hpp"

namespace topograd::runtime::vulkan {

/// A pass with values beside the gradient, while it is recorded.
struct ValuePass {
  Pass pass;
  ValueSinks sinks;
};

/// Sets in the order in which they run: first those that write every block of an array.
struct GatherUse {
  std::size_t term = 0;
  GatherSet* set = nullptr;
  bool covers = false;
};

/// Sets whose fused products make up that of the problem, and the terms that are fused into each.
struct FusedProduct {
  GatherUse use;
  codegen::Fusion fusion{};
  std::unique_ptr<FusedTerms> fused_terms;
};

/// Sums by block, or by atomics. A choice between two ways is measured when it is first recorded.
class TermSums : Part {
 public:
  /// Decisions for the kernels in use, and buffers made for them.
  struct Made {
    SumChoices::Decisions decisions;
    std::vector<Buffer> stored;  ///< by term, terms of gather_store
  };

  /// All of these outlive it.
  TermSums(const Part& part, TermRows& rows) : Part(part), rows_(rows), choices_(part) {}

  const SumChoices& choices() const { return choices_; }

  // Where either of two ways may yet be chosen, lists that declare have both; others choose.
  /// `values`: with the gradient, of terms whose values take one pass.
  void record(CommandList& list, Pass pass, const Operands& operands, const Buffer& out,
              ValuePass* values = nullptr);
  /// The gradient at x to `out`, the cost, and for Pass::values rows to TermRows.
  void record_values(CommandList& list, Pass pass, const Buffer& x, const Buffer& out,
                     codegen::Scalar cost);
  /// Packed diagonal blocks.
  void record_blocks(CommandList& list, const Operands& operands);
  /// Sets in the order in which they are to run.
  std::vector<GatherUse> gather_order(Pass pass);
  /// Scratch for terms of one batch; empty until it is made.
  Buffer& scratch(std::size_t k);

  /// Notes what was asked for: kernels that are to serve later are made for it.
  void use(Pass pass) { used_.insert(pass); }
  bool is_used() const { return !used_.empty(); }
  /// Records all that was asked for so far.
  void record_used(CommandList& list);

  void swap(Made& made) {
    choices_.swap(made.decisions);
    std::swap(*stored_, made.stored);
  }

 private:
  void record_gather(CommandList& list, Pass pass, const Operands& operands, const Buffer& out,
                     ValuePass* values);
  void record_set(CommandList& list, std::size_t k, GatherSet& set, Pass pass,
                  const Operands& operands, const SumTarget& target, ValuePass* values);
  /// Records a fill command, or kernels in a conditional section.
  void record_zeros(CommandList& list, const Buffer& out, std::uint64_t count);
  bool may_store_diagonals(std::size_t k) const;
  void record_batch_sum(CommandList& list, std::size_t k, Pass pass, const Operands& with,
                        bool store, ValuePass* values = nullptr);
  void record_terms(CommandList& list, std::size_t k, Pass pass, const Operands& with,
                    ValuePass* values = nullptr);
  void record_apart(CommandList& list, std::size_t k, ValuePass& values, const Buffer& x);
  /// Null: not by one pass.
  ValueSinks* sinks_of(const CommandList& list, std::size_t k, ValuePass* values);
  const Buffer& value_sums(const CommandList& list);

  /// Measures what is open. True if something was.
  bool settle(std::size_t k, Pass pass);
  bool settle_values(std::size_t k, Pass pass);
  double time_choice(const Recorder::Record& choice);

  TermRows& rows_;
  SumChoices choices_;
  Derived<std::vector<Buffer>> stored_{recorder_.structure};  // by term, terms of gather_store
  Derived<Buffer> value_sums_{recorder_.kernels};
  std::set<Pass> used_;
};

/// Rows and sums of all terms, as Engine and SecondDerivatives have them.
class PointVectors : Part {
 public:
  /// All of these outlive it.
  PointVectors(const Part& part, TermRows& rows, TermSums& sums)
      : Part(part), rows_(rows), sums_(sums) {}

  void residuals(std::span<double> out);
  void gradient(std::span<double> out) { sum(Pass::gradient, out); }
  void jvp(std::span<const double> p, std::span<double> out);
  void jtjp(std::span<const double> p, std::span<double> out) { product(Pass::jtjp, p, out); }
  void hvp(std::span<const double> p, std::span<double> out) { product(Pass::hvp, p, out); }

  /// Reads StepVectors::result.
  Readback& readback() { return *readback_; }

 private:
  void product(Pass pass, std::span<const double> p, std::span<double> out);
  void sum(Pass pass, std::span<double> out);

  TermRows& rows_;
  TermSums& sums_;
  Derived<Readback> readback_{recorder_.kernels};
};

}  // namespace topograd::runtime::vulkan
