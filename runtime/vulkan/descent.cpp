// Descent along directions from a history of steps, on the device.
#include "vulkan_engine.hpp"

#include <algorithm>
#include <cmath>

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;
using codegen::Scalar;
using codegen::slot;
using codegen::VectorOp;

/// Vectors of a page begin at multiples of so many numbers, where buffers can be bound.
constexpr std::uint32_t kVectorAlignment = 256;
/// Workgroups of all products of a trial, for each that one grid-stride loop takes.
constexpr std::uint32_t kDotsOfLoop = 4;

constexpr Scalar user(std::uint32_t place) {
  return static_cast<Scalar>(slot(Scalar::user) + place);
}
constexpr Scalar kLength = user(0);  ///< of the trial
constexpr Scalar kSlope = user(1);   ///< of the direction
constexpr Scalar kDirectionSquared = user(2);
constexpr Scalar kKeptLength = user(3);  ///< of the trial that was kept last

}  // namespace

class VulkanEngine::Descent final : public DescentSteps {
 public:
  explicit Descent(VulkanEngine& engine) : e_(engine) {}

  bool prepare() {
    if (pairs_ == 0) make_buffers(1);
    return e_.recorder_.advance(preparation_, [this](CommandList& list) { record_all(list); });
  }

  DescentReport begin_descent(std::size_t pairs) override {
    if (pairs_ != pairs) make_buffers(pairs);
    if (!begin_.list) make_lists();
    pending_.clear();
    e_.recorder_.submit(begin_);
    pending_.push_back(&keep_gradient_);
    return norms();
  }

  DescentReport try_direction(std::span<const double> factors, double length) override {
    if (e_.context_.scalar_precision() == Precision::f64) {
      e_.context_.device->upload<double>(factors_, factors);
    } else {
      const std::vector<float> narrow(factors.begin(), factors.end());
      e_.context_.device->upload<float>(factors_, narrow);
    }
    pending_.push_back(&direction_);
    return try_length(length);
  }

  DescentReport try_length(double length) override {
    const std::pair<Scalar, double> scalars[] = {{kLength, length}, {kKeptLength, kept_length_}};
    e_.v_.ops->write(scalars);
    length_ = length;
    pending_.push_back(&look_);
    e_.recorder_.submit(pending_);
    pending_.clear();
    return report();
  }

  void keep_descent(std::optional<std::size_t> pair) override {
    kept_length_ = length_;
    if (pair) pending_.push_back(&keep_pair_[*pair]);
    pending_.push_back(&keep_gradient_);
    pending_.push_back(&e_.accepting());
  }

  void descent_point(std::span<double> x) override {
    if (!pending_.empty()) e_.recorder_.submit(pending_);
    pending_.clear();
    e_.point(x);
  }

  bool last_known_descent(std::span<double> x) override { return e_.last_known_point(x); }

 private:
  /// Vectors that fit one range.
  struct Page {
    Buffer vectors;
    std::uint32_t first = 0, count = 0;
  };

  std::uint32_t size() const { return static_cast<std::uint32_t>(e_.problem_.model().scalars); }
  std::uint64_t bytes() const { return e_.problem_.model().scalars * e_.context_.element_bytes(); }
  std::uint32_t vectors() const { return static_cast<std::uint32_t>(2 * pairs_); }
  /// Vectors whose products are made: d and y too.
  std::uint32_t products() const { return vectors() + 2; }

  void make_buffers(std::size_t pairs) {
    Context& context = e_.context_;
    begin_ = {};
    pairs_ = pairs;
    stride_ = (size() + kVectorAlignment - 1) / kVectorAlignment * kVectorAlignment;
    const std::uint64_t most =
        std::min(context.max_range(), context.device->limits().max_allocation_size);
    const std::uint64_t vector_bytes = std::uint64_t{stride_} * context.element_bytes();
    const auto fit =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most / vector_bytes, 1, vectors()));
    pages_.clear();
    for (std::uint32_t first = 0; first < vectors(); first += fit) {
      const std::uint32_t count = std::min(fit, vectors() - first);
      const std::uint64_t numbers = std::uint64_t{count - 1} * stride_ + size();
      pages_.push_back({make_numbers(context, numbers, "history"), first, count});
    }
    change_ = make_numbers(context, size(), "gradient_change");
    factors_ = make_partials(e_.context_, 1 + vectors());
    const std::uint32_t wanted = kDotsOfLoop * context.most_workgroups() / products();
    spread_ = std::clamp(wanted, 1u, e_.v_.ops->workgroups(size()));
    partials_ = make_partials(e_.context_, std::uint64_t{3} * products() * spread_);
    products_ = make_partials(e_.context_, 3 * products());
    numbers_.assign(3 * products(), 0.0);
    landing_ = {};
  }

  void make_lists() {
    e_.sums_.use(Pass::cost_gradient);
    e_.make_accept_lists();
    e_.recorder_.collect([&](CommandList& list) { record_all(list); });
    e_.recorder_.finish_kernels();
    begin_ = e_.recorder_.make_list("descent_begin", [&](CommandList& list) {
      list.copy(e_.v_.x, 0, e_.v_.trial, 0, bytes());
      list.barrier();
      e_.record_trial_gradient(list);
    });
    direction_ = e_.recorder_.make_list("history_direction",
                                        [&](CommandList& list) { record_direction(list); });
    look_ = e_.recorder_.make_list("descent_look", [&](CommandList& list) { record_look(list); });
    keep_gradient_ = e_.recorder_.make_list("keep_gradient", [&](CommandList& list) {
      list.barrier();
      list.copy(e_.v_.result, 0, e_.v_.gradient, 0, bytes());
    });
    keep_pair_.clear();
    for (std::uint32_t pair = 0; pair < pairs_; ++pair) {
      keep_pair_.push_back(
          e_.recorder_.make_list("keep_pair", [&](CommandList& list) { record_pair(list, pair); }));
    }
  }

  void record_all(CommandList& list) {
    record_pair(list, 0);
    record_direction(list);
    record_look(list);
  }

  /// step_ = the combination of gradient_ and history.
  void record_direction(CommandList& list) {
    BindingTable table = e_.v_.table();
    table.set(BufferRole::result, e_.v_.step);
    table.set(BufferRole::coarse_in, factors_);
    std::uint32_t groups = 0;
    for (const Page& page : pages_) {
      list.barrier();
      table.set(BufferRole::second_operand, page.vectors);
      groups = e_.v_.ops->workgroups(size());
      e_.v_.ops->record(list,
                        {.op = VectorOp::combine_history,
                         .constants = {.count = size(),
                                       .first = stride_,
                                       .out_stride = groups,
                                       .blocks_first = 1 + page.first,
                                       .a = page.count,
                                       .overwrite = page.first == 0 ? 1u : 0u}},
                        table);
    }
    list.barrier();
    e_.v_.ops->sum(list, e_.v_.partials, 0, groups, groups, kSlope, 2);
  }

  void record_look(CommandList& list) {
    list.barrier();
    e_.record_move(list, kLength);
    e_.record_trial_gradient(list);
    combine(list, e_.v_.result, e_.v_.gradient, change_, Scalar::one, Scalar::minus_one);
    list.barrier();
    for (const Page& page : pages_) record_dots(list, page.vectors, page.first, page.count);
    record_dots(list, e_.v_.step, vectors(), 1);
    record_dots(list, change_, vectors() + 1, 1);
    list.barrier();
    e_.v_.ops->sum_into(list, products_, partials_, spread_, 3 * products());
    list.barrier();
    landing_.record(e_.context_, list, products_);
  }

  void record_dots(CommandList& list, const Buffer& rows, std::uint32_t first,
                   std::uint32_t count) {
    BindingTable table;
    table.set(BufferRole::second_operand, rows);
    table.set(BufferRole::step, e_.v_.step);
    table.set(BufferRole::first_operand, change_);
    table.set(BufferRole::gradient, e_.v_.result);
    table.set(BufferRole::partials, partials_);
    e_.v_.ops->record(list,
                      {.op = VectorOp::history_dots,
                       .constants = {.count = size(),
                                     .first = stride_,
                                     .out_first = first * spread_,
                                     .out_stride = products() * spread_,
                                     .b = spread_},
                       .groups = count * spread_},
                      table);
  }

  /// s = length d and y of the trial that is kept, to their places.
  void record_pair(CommandList& list, std::uint32_t pair) {
    list.barrier();
    const auto place = [&](std::uint32_t vector) -> std::pair<const Buffer*, std::uint64_t> {
      const auto page = std::ranges::find_if(
          pages_, [&](const Page& one) { return vector < one.first + one.count; });
      return {&page->vectors,
              std::uint64_t{vector - page->first} * stride_ * e_.context_.element_bytes()};
    };
    const auto [s, s_offset] = place(2 * pair);
    const auto [y, y_offset] = place(2 * pair + 1);
    combine(list, e_.v_.step, e_.v_.step, *s, kKeptLength, Scalar::zero, s_offset);
    list.copy(change_, 0, *y, y_offset, bytes());
  }

  /// out = in_a a + in_b b
  void combine(CommandList& list, const Buffer& a, const Buffer& b, const Buffer& out, Scalar in_a,
               Scalar in_b, std::uint64_t offset = 0) {
    BindingTable table;
    table.set(BufferRole::first_operand, a);
    table.set(BufferRole::second_operand, b);
    table.set(BufferRole::result, out, offset, bytes());
    e_.v_.ops->record(
        list,
        {.op = VectorOp::combine, .constants = {.count = size(), .a = slot(in_a), .b = slot(in_b)}},
        table);
  }

  DescentReport norms() {
    const auto& values = e_.read_scalars();
    const auto at = [&](Scalar scalar) { return values[slot(scalar)]; };
    return {.cost = at(Scalar::trial_cost),
            .gradient_max_norm = at(Scalar::gradient_max),
            .gradient_norm = std::sqrt(at(Scalar::gradient_squared)),
            .x_norm = std::sqrt(at(Scalar::x_squared)),
            .slope = at(kSlope),
            .direction_norm = std::sqrt(at(kDirectionSquared))};
  }

  DescentReport report() {
    DescentReport out = norms();
    const bool wide = e_.context_.scalar_precision() == Precision::f64;
    landing_.read(e_.context_, e_.recorder_.last(), products_, wide, numbers_);
    const auto row = [&](std::size_t k) {
      return std::span<const double>(numbers_).subspan(k * products(), products());
    };
    out.with_direction = row(0);
    out.with_change = row(1);
    out.with_gradient = row(2);
    return out;
  }

  VulkanEngine& e_;
  Preparation preparation_;
  std::size_t pairs_ = 0;
  std::uint32_t stride_ = 0;  // elements between vectors of a page
  std::uint32_t spread_ = 0;  // workgroups that share the products of one vector
  std::vector<Page> pages_;   // s₀, y₀, s₁, y₁, ...
  Buffer change_, factors_, partials_, products_;
  Landing landing_;
  Recorded begin_, direction_, look_, keep_gradient_;
  std::vector<Recorded> keep_pair_;
  std::vector<const Recorded*> pending_;
  std::vector<double> numbers_;  // products, as they came back
  double length_ = 0, kept_length_ = 0;
};

DescentSteps* VulkanEngine::descent_steps(bool wait) {
  if (shaped()) return nullptr;
  follow_mask();
  if (!*descent_) *descent_ = std::make_unique<Descent>(*this);
  return wait || static_cast<Descent&>(**descent_).prepare() ? descent_->get() : nullptr;
}

}  // namespace topograd::runtime::vulkan
