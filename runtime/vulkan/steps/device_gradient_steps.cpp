// Steps along gradients: cost at trial points, rules and the best point, directions from history.
#include "device_gradient_steps.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "../../../ir/machine/state_record.hpp"

namespace topograd::runtime::vulkan {
namespace {

using codegen::Scalar;

}  // namespace

void record_trial_gradient(CommandList& list, std::uint64_t scalars, const StepVectors& v,
                           TermSums& sums) {
  sums.record_values(list, Pass::cost_gradient, v.trial, v.result, Scalar::trial_cost);
  const auto n = static_cast<std::uint32_t>(scalars);
  const std::uint32_t groups = v.ops->workgroups(n);
  v.ops->record(list, kernel::point_norms{{.gradient = v.result,
                                           .point = v.trial,
                                           .fixed_scalars = v.fixed,
                                           .partials = v.partials},
                                          {.count = n, .out_stride = groups}});
  list.barrier();
  v.ops->sum(list, v.partials, 0, groups, groups, Scalar::gradient_squared, 2);
  v.ops->sum(list, v.partials, 2 * groups, groups, groups, Scalar::gradient_max, 1, true);
  list.barrier();
  v.ops->record_read(list);
}

namespace {

codegen::Scalar user_scalar(std::uint32_t number) {
  return static_cast<codegen::Scalar>(codegen::slot(codegen::Scalar::user) + number);
}

}  // namespace

void DeviceRules::make_vectors() {
  if (state_->mean) return;
  for (Buffer* vector : {&state_->mean, &state_->square, &state_->best})
    *vector = make_numbers(context_, problem_.model().scalars, "first_order");
}

bool DeviceRules::prepare() {
  make_vectors();
  return recorder_.advance(state_->preparation, [this](CommandList& list) {
    record_rule(list, FirstOrderRule::Kind::adam);
    record_rule(list, FirstOrderRule::Kind::momentum);
  });
}

void DeviceRules::make_lists() {
  make_vectors();
  State& state = *state_;
  if (state.begin.list) return;
  const std::uint64_t bytes = problem_.model().scalars * context_.element_bytes();
  sums_.use(Pass::cost_gradient);
  using Kind = FirstOrderRule::Kind;
  const auto forget = [this, bytes](CommandList& list) {
    for (const Buffer* vector : {&state_->mean, &state_->square}) list.fill(*vector, 0, bytes, 0);
  };
  const auto begin = [&](CommandList& list) {
    forget(list);
    list.copy(v_.x, 0, state.best, 0, bytes);
    list.copy(v_.x, 0, v_.trial, 0, bytes);
    list.barrier();
    record_trial_gradient(list, problem_.model().scalars, v_, sums_);
  };
  const auto keep_best = [&](CommandList& list) {
    record_kept(list);
    list.copy(v_.trial, 0, state.best, 0, bytes);
  };
  recorder_.make_lists(
      {{state.begin, "first_order_begin", begin},
       {state.adam, "adam", [this](CommandList& list) { record_rule(list, Kind::adam); }},
       {state.momentum, "momentum",
        [this](CommandList& list) { record_rule(list, Kind::momentum); }},
       {state.keep, "first_order_keep", [this](CommandList& list) { record_kept(list); }},
       {state.keep_best, "first_order_best", keep_best},
       {state.forget, "first_order_forget", forget}});
  for (std::size_t k = 0; k < state.stage.size(); ++k) {
    state.staged.points[k] = context_.device->buffer(bytes, MemoryKind::Upload, "staged_best");
    state.stage[k] = recorder_.make_list("first_order_stage", [&](CommandList& list) {
      list.copy(v_.trial, 0, state.staged.points[k], 0, bytes);
    });
  }
}

void DeviceRules::record_kept(CommandList& list) {
  const std::uint64_t bytes = problem_.model().scalars * context_.element_bytes();
  list.copy(v_.trial, 0, v_.x, 0, bytes);
  list.copy(v_.result, 0, v_.gradient, 0, bytes);
}

void DeviceRules::record_rule(CommandList& list, FirstOrderRule::Kind kind) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  list.barrier();
  const std::uint32_t groups =
      kind == FirstOrderRule::Kind::adam
          ? v_.ops->record(list, kernel::adam{{.point = v_.x,
                                               .gradient = v_.gradient,
                                               .means = state_->mean,
                                               .squares = state_->square,
                                               .result = v_.trial,
                                               .partials = v_.partials},
                                              {.count = n, .rule = Scalar::user}})
          : v_.ops->record(list, kernel::momentum{{.point = v_.x,
                                                   .gradient = v_.gradient,
                                                   .means = state_->mean,
                                                   .result = v_.trial,
                                                   .partials = v_.partials},
                                                  {.count = n, .rule = Scalar::user}});
  list.barrier();
  v_.ops->sum(list, v_.partials, 0, groups, groups, Scalar::step_squared, 1);
  list.barrier();
  record_trial_gradient(list, problem_.model().scalars, v_, sums_);
}

FirstOrderReport DeviceRules::report() {
  const auto& values = v_.ops->read(recorder_.last());
  const auto at = [&](Scalar s) { return values[codegen::slot(s)]; };
  return {.cost = at(Scalar::trial_cost),
          .gradient_max_norm = at(Scalar::gradient_max),
          .gradient_norm = std::sqrt(at(Scalar::gradient_squared)),
          .step_norm = std::sqrt(at(Scalar::step_squared))};
}

FirstOrderReport DeviceRules::begin_steps() {
  follow_();
  make_lists();
  state_->pending.clear();
  state_->staged.forget();
  const Recorded* const lists[] = {&state_->begin, &state_->keep};
  recorder_.submit(lists);
  return report();
}

void DeviceRules::set_means(std::span<const double> mean, std::span<const double> square) {
  problem_.write(state_->mean, mean);
  problem_.write(state_->square, square);
}

FirstOrderReport DeviceRules::try_rule(const FirstOrderRule& rule) {
  const bool adam = rule.kind == FirstOrderRule::Kind::adam;
  const double numbers[] = {rule.rate,        adam ? rule.beta1 : rule.momentum,
                            rule.beta2,       rule.mean_bias,
                            rule.square_bias, rule.epsilon,
                            rule.decay};
  std::vector<std::pair<Scalar, double>> scalars;
  for (const double value : numbers)
    scalars.emplace_back(user_scalar(static_cast<std::uint32_t>(scalars.size())), value);
  v_.ops->write(scalars);
  State& state = *state_;
  state.pending.push_back(adam ? &state.adam : &state.momentum);
  recorder_.submit(state.pending);
  state.pending.clear();
  const FirstOrderReport made = report();
  state.staged.arrive();  // it was queued before
  return made;
}

void DeviceRules::keep_trial(bool best) {
  State& state = *state_;
  state.pending.push_back(best ? &state.keep_best : &state.keep);
  if (best && state.staged.due()) state.pending.push_back(&state.stage[state.staged.begin()]);
}

void DeviceRules::forget_gradients() { state_->pending.push_back(&state_->forget); }

void DeviceRules::flush() {
  if (!state_->pending.empty()) recorder_.submit(state_->pending);
  state_->pending.clear();
}

void DeviceRules::transfer(ir::StateRecord& record) {
  flush();
  std::vector<double> numbers(problem_.model().scalars);
  const std::pair<std::string_view, const Buffer*> vectors[] = {
      {"mean of gradients", &state_->mean},
      {"mean of squared gradients", &state_->square},
      {"best point on the device", &state_->best}};
  for (const auto& [name, buffer] : vectors) {
    if (!record.restores()) problem_.read(*buffer, numbers);
    record.list(name, std::span(numbers));
    if (record.restores()) problem_.write(*buffer, numbers);
  }
}

void DeviceRules::current_point(std::span<double> x) {
  flush();
  problem_.read_point(v_.x, x);
}

void DeviceRules::best_point(std::span<double> x) {
  flush();
  problem_.read_point(state_->best, x);
}

bool DeviceRules::last_known_best(std::span<double> x) { return state_->staged.read(problem_, x); }

namespace {

using codegen::slot;

/// Vectors of a page begin at multiples of so many numbers, where buffers can be bound.
constexpr std::uint32_t kVectorAlignment = 256;
/// Workgroups of all products of a trial, for each that one grid-stride loop takes.
constexpr std::uint32_t kDotsOfLoop = 4;

constexpr Scalar user(std::uint32_t number) {
  return static_cast<Scalar>(slot(Scalar::user) + number);
}
constexpr Scalar kLength = user(0);  ///< step length of the trial
constexpr Scalar kSlope = user(1);   ///< slope along the direction
constexpr Scalar kDirectionSquared = user(2);
constexpr Scalar kKeptLength = user(3);  ///< length of the trial that was kept last

}  // namespace

bool DeviceDescent::prepare() {
  if (pairs_ == 0) make_buffers(1);
  return recorder_.advance(preparation_, [this](CommandList& list) { record_all(list); });
}

DescentReport DeviceDescent::begin_descent(std::size_t pairs) {
  if (pairs_ != pairs) make_buffers(pairs);
  if (!lists_.begin.list) make_lists();
  pending_.clear();
  recorder_.submit(lists_.begin);
  pending_.push_back(&lists_.keep_gradient);
  return norms();
}

DescentReport DeviceDescent::try_direction(std::span<const double> factors, double length) {
  if (context_.scalar_precision() == Precision::f64) {
    context_.device->upload<double>(factors_, factors);
  } else {
    const std::vector<float> narrow(factors.begin(), factors.end());
    context_.device->upload<float>(factors_, narrow);
  }
  pending_.push_back(&lists_.direction);
  return try_length(length);
}

DescentReport DeviceDescent::try_length(double length) {
  const std::pair<Scalar, double> scalars[] = {{kLength, length}, {kKeptLength, kept_length_}};
  v_.ops->write(scalars);
  length_ = length;
  pending_.push_back(&lists_.look);
  recorder_.submit(pending_);
  pending_.clear();
  return report();
}

void DeviceDescent::keep_descent(std::optional<std::size_t> pair) {
  kept_length_ = length_;
  if (pair) pending_.push_back(&lists_.keep_pair[*pair]);
  pending_.push_back(&lists_.keep_gradient);
  pending_.push_back(&points_.accepting());
}

void DeviceDescent::flush() {
  if (pending_.empty()) return;
  const std::pair<Scalar, double> scalars[] = {{kKeptLength, kept_length_}};
  v_.ops->write(scalars);
  recorder_.submit(pending_);
  pending_.clear();
}

void DeviceDescent::transfer(ir::StateRecord& record) {
  flush();
  for (const Page& page : pages_) {
    std::vector<double> numbers(std::size_t{page.count - 1} * stride_ + size());
    if (!record.restores()) read_numbers(context_, page.vectors, numbers);
    record.list("steps and changes of the gradient", std::span(numbers));
    if (record.restores()) write_numbers(context_, page.vectors, numbers);
  }
}

void DeviceDescent::descent_point(std::span<double> x) {
  flush();
  problem_.read_point(v_.x, x);
}

void DeviceDescent::make_buffers(std::size_t pairs) {
  lists_ = {};
  pairs_ = pairs;
  stride_ = (size() + kVectorAlignment - 1) / kVectorAlignment * kVectorAlignment;
  const std::uint64_t most =
      std::min(context_.max_range(), context_.device->limits().max_allocation_size);
  const std::uint64_t vector_bytes = std::uint64_t{stride_} * context_.element_bytes();
  const auto fit =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most / vector_bytes, 1, vectors()));
  pages_.clear();
  for (std::uint32_t first = 0; first < vectors(); first += fit) {
    const std::uint32_t count = std::min(fit, vectors() - first);
    const std::uint64_t numbers = std::uint64_t{count - 1} * stride_ + size();
    pages_.push_back({make_numbers(context_, numbers, "history"), first, count});
  }
  change_ = make_numbers(context_, size(), "gradient_change");
  factors_ = make_partials(context_, 1 + vectors());
  const std::uint32_t wanted = kDotsOfLoop * context_.most_workgroups() / products();
  spread_ = std::clamp(wanted, 1u, v_.ops->workgroups(size()));
  partials_ = make_partials(context_, std::uint64_t{3} * products() * spread_);
  products_ = make_partials(context_, 3 * products());
  numbers_.assign(3 * products(), 0.0);
  readback_ = {};
}

void DeviceDescent::make_lists() {
  sums_.use(Pass::cost_gradient);
  points_.prepare();
  const auto begin = [this](CommandList& list) {
    list.copy(v_.x, 0, v_.trial, 0, bytes());
    list.barrier();
    record_trial_gradient(list, problem_.model().scalars, v_, sums_);
  };
  const auto keep_gradient = [this](CommandList& list) {
    list.barrier();
    list.copy(v_.result, 0, v_.gradient, 0, bytes());
  };
  std::vector<Recorder::List> lists = {
      {lists_.begin, "descent_begin", begin},
      {lists_.direction, "history_direction",
       [this](CommandList& list) { record_direction(list); }},
      {lists_.look, "descent_look", [this](CommandList& list) { record_look(list); }},
      {lists_.keep_gradient, "keep_gradient", keep_gradient}};
  lists_.keep_pair.resize(pairs_);
  for (std::uint32_t pair = 0; pair < pairs_; ++pair)
    lists.push_back({lists_.keep_pair[pair], "keep_pair",
                     [this, pair](CommandList& list) { record_pair(list, pair); }});
  recorder_.make_lists(lists);
}

void DeviceDescent::record_all(CommandList& list) {
  record_pair(list, 0);
  record_direction(list);
  record_look(list);
}

void DeviceDescent::record_direction(CommandList& list) {
  std::uint32_t groups = 0;
  for (const Page& page : pages_) {
    list.barrier();
    groups = v_.ops->workgroups(size());
    v_.ops->record(list, kernel::combine_history{{.gradient = v_.gradient,
                                                  .history = page.vectors,
                                                  .factors = factors_,
                                                  .result = v_.step,
                                                  .partials = v_.partials},
                                                 {.count = size(),
                                                  .stride = stride_,
                                                  .vectors = page.count,
                                                  .first_factor = 1 + page.first,
                                                  .overwrite = page.first == 0 ? 1u : 0u,
                                                  .out_stride = groups}});
  }
  list.barrier();
  v_.ops->sum(list, v_.partials, 0, groups, groups, kSlope, 2);
}

void DeviceDescent::record_look(CommandList& list) {
  list.barrier();
  combine(list, v_.x, v_.step, v_.trial, Scalar::one, kLength);
  list.barrier();
  record_trial_gradient(list, problem_.model().scalars, v_, sums_);
  combine(list, v_.result, v_.gradient, change_, Scalar::one, Scalar::minus_one);
  list.barrier();
  for (const Page& page : pages_) record_dots(list, page.vectors, page.first, page.count);
  record_dots(list, v_.step, vectors(), 1);
  record_dots(list, change_, vectors() + 1, 1);
  list.barrier();
  v_.ops->sum_into(list, products_, partials_, spread_, 3 * products());
  list.barrier();
  readback_.record(context_, list, products_);
}

void DeviceDescent::record_dots(CommandList& list, const Buffer& rows, std::uint32_t first,
                                std::uint32_t count) {
  v_.ops->record(list,
                 kernel::history_dots{{.history = rows,
                                       .delta = v_.step,
                                       .change = change_,
                                       .gradient = v_.result,
                                       .partials = partials_},
                                      {.count = size(),
                                       .stride = stride_,
                                       .groups = spread_,
                                       .out_first = first * spread_,
                                       .out_stride = products() * spread_}},
                 {.groups = count * spread_});
}

void DeviceDescent::record_pair(CommandList& list, std::uint32_t pair) {
  list.barrier();
  const auto part_of = [&](std::uint32_t vector) -> std::pair<const Buffer*, std::uint64_t> {
    const auto page = std::ranges::find_if(
        pages_, [&](const Page& one) { return vector < one.first + one.count; });
    return {&page->vectors,
            std::uint64_t{vector - page->first} * stride_ * context_.element_bytes()};
  };
  const auto [s, s_offset] = part_of(2 * pair);
  const auto [y, y_offset] = part_of(2 * pair + 1);
  combine(list, v_.step, v_.step, *s, kKeptLength, Scalar::zero, s_offset);
  list.copy(change_, 0, *y, y_offset, bytes());
}

void DeviceDescent::combine(CommandList& list, const Buffer& a, const Buffer& b, const Buffer& out,
                            Scalar in_a, Scalar in_b, std::uint64_t offset) {
  v_.ops->record(list, kernel::combine{{.x = a, .y = b, .result = {out, offset, bytes()}},
                                       {.count = size(), .x_factor = in_a, .y_factor = in_b}});
}

DescentReport DeviceDescent::norms() {
  const auto& values = points_.read_scalars();
  const auto at = [&](Scalar scalar) { return values[slot(scalar)]; };
  return {.cost = at(Scalar::trial_cost),
          .gradient_max_norm = at(Scalar::gradient_max),
          .gradient_norm = std::sqrt(at(Scalar::gradient_squared)),
          .x_norm = std::sqrt(at(Scalar::x_squared)),
          .slope = at(kSlope),
          .direction_norm = std::sqrt(at(kDirectionSquared))};
}

DescentReport DeviceDescent::report() {
  DescentReport out = norms();
  const bool wide = context_.scalar_precision() == Precision::f64;
  readback_.read(context_, recorder_.last(), products_, wide, numbers_);
  const auto row = [&](std::size_t k) {
    return std::span<const double>(numbers_).subspan(k * products(), products());
  };
  out.with_direction = row(0);
  out.with_change = row(1);
  out.with_gradient = row(2);
  return out;
}

}  // namespace topograd::runtime::vulkan
