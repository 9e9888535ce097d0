// Steps along gradients on a device: by rules such as Adam, and from a history of steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../../engine/first_order.hpp"
#include "../terms/term_sums.hpp"
#include "point_moves.hpp"

namespace topograd::runtime::vulkan {

/// Requires that all free scalars take part in steps. Lives as long as the same kernels are in use.
class DeviceDescent final : public DescentSteps, Part {
 public:
  /// All of these outlive it.
  DeviceDescent(const Part& part, TermSums& sums, AcceptedPoints& points)
      : Part(part), sums_(sums), points_(points) {}

  /// Goes on making kernels without waiting; true once they are there.
  bool prepare();
  DescentReport begin_descent(std::size_t pairs) override;
  DescentReport try_direction(std::span<const double> factors, double length) override;
  DescentReport try_length(double length) override;
  void keep_descent(std::optional<std::size_t> pair) override;
  void transfer(ir::StateRecord& record) override;
  void descent_point(std::span<double> x) override;
  bool last_known_descent(std::span<double> x) override { return points_.last_known_point(x); }

 private:
  /// Vectors that fit one range.
  struct Page {
    Buffer vectors;
    std::uint32_t first = 0, count = 0;
  };

  std::uint32_t size() const { return static_cast<std::uint32_t>(problem_.model().scalars); }
  std::uint64_t bytes() const { return problem_.model().scalars * context_.element_bytes(); }
  std::uint32_t vectors() const { return static_cast<std::uint32_t>(2 * pairs_); }
  /// Vectors whose products are made: d and y too.
  std::uint32_t products() const { return vectors() + 2; }

  void make_buffers(std::size_t pairs);
  void make_lists();
  void record_all(CommandList& list);
  /// v.step = the combination of v.gradient and history.
  void record_direction(CommandList& list);
  void record_look(CommandList& list);
  void record_dots(CommandList& list, const Buffer& rows, std::uint32_t first, std::uint32_t count);
  /// Submits the commands that wait.
  void flush();
  /// s = length d and y of the trial that is kept, to their slots of the history.
  void record_pair(CommandList& list, std::uint32_t pair);
  /// out = in_a a + in_b b
  void combine(CommandList& list, const Buffer& a, const Buffer& b, const Buffer& out,
               codegen::Scalar in_a, codegen::Scalar in_b, std::uint64_t offset = 0);
  DescentReport norms();
  DescentReport report();

  TermSums& sums_;
  AcceptedPoints& points_;
  Preparation preparation_;
  std::size_t pairs_ = 0;
  std::uint32_t stride_ = 0;  // elements between vectors of a page
  std::uint32_t spread_ = 0;  // workgroups that share the products of one vector
  std::vector<Page> pages_;   // s₀, y₀, s₁, y₁, ...
  Buffer change_, factors_, partials_, products_;
  Readback readback_;
  struct Lists {
    Recorded begin, direction, look, keep_gradient;
    std::vector<Recorded> keep_pair;
  } lists_;
  std::vector<const Recorded*> pending_;
  std::vector<double> numbers_;  // products, as they came back
  double length_ = 0, kept_length_ = 0;
};

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

/// Problems with bounds or manifolds have none.
class DeviceGradientSteps final : public GradientSteps, Part {
 public:
  ///   follow  changes to other kernels where these are there; called before the first step
  ///
  /// All of these outlive it.
  DeviceGradientSteps(const Part& part, TermSums& sums, AcceptedPoints& points,
                      const PointMoves& moves, std::function<void()> follow)
      : Part(part),
        sums_(sums),
        points_(points),
        moves_(moves),
        follow_(std::move(follow)),
        rules_(part, sums, follow_) {}

  FirstOrderSteps* first_order_steps(bool wait) override {
    if (moves_.has_bounds_or_manifolds()) return nullptr;
    follow_();
    return wait || rules_.prepare() ? &rules_ : nullptr;
  }
  DescentSteps* descent_steps(bool wait) override {
    if (moves_.has_bounds_or_manifolds()) return nullptr;
    follow_();
    if (!*descent_)
      *descent_ = std::make_unique<DeviceDescent>(static_cast<const Part&>(*this), sums_, points_);
    return wait || (*descent_)->prepare() ? descent_->get() : nullptr;
  }

 private:
  TermSums& sums_;
  AcceptedPoints& points_;
  const PointMoves& moves_;
  std::function<void()> follow_;
  DeviceRules rules_;
  Derived<std::unique_ptr<DeviceDescent>> descent_{recorder_.kernels};
};

/// Cost and gradient at v.trial, the latter to v.result, for the host to read with its norms.
void record_trial_gradient(CommandList& list, std::uint64_t scalars, const StepVectors& v,
                           TermSums& sums);

}  // namespace topograd::runtime::vulkan
