// Descent along directions from a history of steps, on the device.
#pragma once

#include "../../engine/first_order.hpp"
#include "../terms/term_sums.hpp"
#include "accepted_points.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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
  /// s = length d and y of the trial that is kept, to their places.
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

}  // namespace topograd::runtime::vulkan
