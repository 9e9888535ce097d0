// Results of passes by instance: rows, Jacobians, terms of vjp, failed guards.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "device_terms.hpp"

namespace topograd::runtime::vulkan {

/// Evaluates at the point of the vectors.
class TermRows : Part {
 public:
  using Results = std::map<Pass, std::vector<Buffer>>;  ///< by term

  explicit TermRows(const Part& part) : Part(part) {}

  /// Output buffer of a store pass over one term; made when first asked for.
  const Buffer& result(Pass pass, std::size_t term);
  /// The same, to be recorded: a null one for a list that declares.
  const Buffer& result(const CommandList& list, Pass pass, std::size_t term);
  bool has_results(Pass pass) const { return results_->contains(pass); }
  Results exchange_results(Results results) { return std::exchange(*results_, std::move(results)); }
  /// Readbacks of all terms for a pass.
  std::vector<Readback>& readbacks(Pass pass) { return (*readbacks_)[pass]; }

  void record(CommandList& list, Pass pass, const Operands& operands);
  /// The seeds of each term, and the terms of its slots.
  void record_vjp(CommandList& list);
  /// `own`: as Readback::record().
  void record_readbacks(CommandList& list, Pass pass, std::vector<Readback>& readbacks, bool own);
  /// Rows in the caller's order.
  void copy(Pass pass, const std::vector<Readback>& readbacks, const Submission& after,
            std::span<double> out);

  // As the functions of Engine and Guards.
  void read(Pass pass, const Operands& operands, std::span<double> out);
  void jacobian(std::size_t term, std::span<double> values);
  void vjp(std::span<const double> seeds, std::span<double> out);
  std::vector<std::uint32_t> failed_instances(std::size_t term, Guards::At at);

 private:
  Buffer& seeds(std::size_t term);
  void write_seeds(std::size_t term, std::span<const double> seeds);

  Derived<std::map<Pass, std::vector<Readback>>> readbacks_{recorder_.kernels};
  Derived<Results> results_{recorder_.structure};
  Derived<std::vector<Buffer>> seeds_{recorder_.structure};  // by term
};

/// Evaluates at the point of the vectors.
class TermHessians : Part {
 public:
  explicit TermHessians(const Part& part) : Part(part) {}

  /// As SecondDerivatives::hessian().
  void read(std::size_t term, bool project, std::span<double> values);
  /// Takes the negative part from `count` blocks of `width` unknowns.
  void record_projection(CommandList& list, std::uint32_t width, std::uint32_t count,
                         const Buffer& blocks);

 private:
  LoadedKernel projection_;
  Buffer rotated_, eigenvectors_;
};

}  // namespace topograd::runtime::vulkan
