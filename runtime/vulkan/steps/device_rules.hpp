// Steps along gradients on the device, by rules such as Adam.
#pragma once

#include "../../engine/first_order.hpp"
#include "../terms/term_sums.hpp"
#include "staged_points.hpp"

#include <array>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {

class DeviceRules final : public FirstOrderSteps, Part {
 public:
  ///   follow  changes to other kernels where these are there; called before the first step
  ///
  /// All of these outlive it.
  DeviceRules(const Part& part, TermSums& sums, std::function<void()> follow)
      : Part(part), sums_(sums), follow_(std::move(follow)) {}

  /// Goes on making kernels without waiting; true once they are there.
  bool prepare();

  FirstOrderReport begin_steps() override;
  FirstOrderReport try_rule(const FirstOrderRule& rule) override;
  void keep_trial(bool best) override;
  void forget_gradients() override;
  void transfer(ir::StateRecord& record) override;
  void current_point(std::span<double> x) override;
  void best_point(std::span<double> x) override;
  bool last_known_best(std::span<double> x) override;
  void set_means(std::span<const double> mean, std::span<const double> square) override;

 private:
  /// Vectors, and commands that wait for the next submission.
  struct State {
    Buffer mean, square, best;
    Recorded begin, adam, momentum, keep, keep_best, forget;
    std::vector<const Recorded*> pending;
    StagedPoints staged;  // best points
    std::array<Recorded, 2> stage;
    Preparation preparation;
  };

  void make_vectors();
  void make_lists();
  /// Submits the commands that wait.
  void flush();
  void record_kept(CommandList& list);
  void record_rule(CommandList& list, FirstOrderRule::Kind kind);
  FirstOrderReport report();

  TermSums& sums_;
  std::function<void()> follow_;
  Derived<State> state_{recorder_.kernels};
};

}  // namespace topograd::runtime::vulkan
