// Evaluations that run while the caller does something else.
#pragma once

#include "../steps/point_moves.hpp"
#include "../terms/term_sums.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {

class BegunEvaluations final : public AsynchronousEvaluations, Part {
 public:
  /// Outlives what begin() returns.
  BegunEvaluations(const Part& part, TermRows& rows, TermSums& sums, AcceptedPoints& points)
      : Part(part), rows_(rows), sums_(sums), points_(points) {}

  std::unique_ptr<Pending> begin(Pass pass, std::span<const double> x, std::span<const double> p,
                                 std::span<double> out) override;
  /// Reads what was begun, before what it reads goes away.
  void finish();

 private:
  class InFlight;
  /// Host memory of one evaluation, and who is to read it.
  struct Slot {
    Readback result;             // a vector, or the scalars
    std::vector<Readback> rows;  // by term
    InFlight* in_flight = nullptr;
  };
  /// One evaluation of a kind runs while the results of the one before are still to be read.
  static constexpr std::size_t kSlots = 2;

  void record(CommandList& list, Pass pass, Slot& slot);
  void read(const Slot& slot, Pass pass, const Submission& after, std::span<double> out);

  TermRows& rows_;
  TermSums& sums_;
  AcceptedPoints& points_;
  Derived<std::map<std::pair<Pass, std::size_t>, std::unique_ptr<Slot>>> slots_{recorder_.kernels};
  std::map<Pass, std::size_t> turns_;
};

}  // namespace topograd::runtime::vulkan
