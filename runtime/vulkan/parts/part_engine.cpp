// Values of a part, steps with the sums of all parts, and packing of what parts exchange.
#include "part_engine.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/state_record.hpp"
#include "../../cpu/tiles/pool.hpp"
#include "../../engine/column_scaling.hpp"
#include "../../linear/gain_test.hpp"
#include "../../model/model.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace topograd::runtime::vulkan {

using codegen::Scalar;

ChunkColumns::ChunkColumns(const Context& context, const ModelPart& part, std::uint32_t count)
    : chunks(static_cast<std::uint32_t>(part.chunks.size())),
      sums(context.device->buffer(
          std::max<std::uint64_t>(std::uint64_t{count} * chunks, 1) *
              (context.scalar_precision() == Precision::f64 ? sizeof(double) : sizeof(float)),
          MemoryKind::Readback, "chunk_sums")),
      numbers(std::size_t{count} * chunks) {}

void ChunkColumns::read(Context& context) {
  if (numbers.empty()) return;
  if (context.scalar_precision() == Precision::f64)
    return context.device->download<double>(sums, numbers);
  std::vector<float> narrow(numbers.size());
  context.device->download<float>(sums, narrow);
  std::ranges::copy(narrow, numbers.begin());
}

ChunkSums::ChunkSums(const Part& part, std::shared_ptr<const ModelPart> of, const PartWork& work)
    : Part(part), of_(std::move(of)), work_(work) {
  ends_ = make_chunk_ends(context_, of_->chunks);
}

std::span<const double> ChunkSums::all_chunks(std::span<const double> columns,
                                              std::size_t count) const {
  if (!work_.failed()) return of_->link->all_chunks(columns, count);
  const std::vector<double> lost(columns.size(), std::numeric_limits<double>::quiet_NaN());
  return of_->link->all_chunks(lost, count);
}

std::vector<double> ChunkSums::totals(std::span<const double> columns, std::size_t count) const {
  const std::span<const double> all = all_chunks(columns, count);
  const std::size_t length = all.size() / count;
  std::vector<double> totals;
  for (std::size_t k = 0; k < count; ++k)
    totals.push_back(cpu::pairwise_sum(all.subspan(k * length, length)));
  return totals;
}

std::vector<double> ChunkSums::totals_and_largest(std::span<const double> columns,
                                                  std::size_t count) const {
  const std::span<const double> all = all_chunks(columns, count);
  const std::size_t length = all.size() / count;
  std::vector<double> totals;
  for (std::size_t k = 0; k + 1 < count; ++k)
    totals.push_back(cpu::pairwise_sum(all.subspan(k * length, length)));
  double largest = 0;
  for (const double value : all.last(length))
    largest = std::isnan(largest) || value <= largest ? largest : value;  // a NaN is kept
  totals.push_back(largest);
  return totals;
}

PartCosts::PartCosts(const Part& part, TermRows& rows, const ChunkSums& sums)
    : Part(part), rows_(rows), sums_(sums) {
  for (const Term& term : problem_.model().terms) instances_.push_back(instances_of(term));
}

// A residual counts in the chunk of the first block that it reads; one that reads none counts in
// the first chunk of the model.
PartCosts::Instances PartCosts::instances_of(const Term& term) const {
  const ir::Batch& batch = *term.batch;
  const std::size_t chunks = sums_.chunks();
  const BlockNumbers numbers(problem_.model().arrays);
  const auto chunk_of = [&](std::size_t i) {
    if (batch.parameter_columns() == 0) return sums_.of().first ? std::size_t{0} : chunks;
    return std::min(find_chunk(sums_.of().chunks, numbers.at(batch.index(i, 0))), chunks);
  };
  std::vector<std::uint32_t> chunk(batch.size()), starts(chunks + 1);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    chunk[i] = static_cast<std::uint32_t>(chunk_of(i));
    if (chunk[i] < chunks) ++starts[chunk[i] + 1];
  }
  for (std::size_t c = 0; c < chunks; ++c) starts[c + 1] += starts[c];
  std::vector<std::uint32_t> entries(starts.back()), next = starts;
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (chunk[i] < chunks) entries[next[chunk[i]]++] = static_cast<std::uint32_t>(i);
  return {make_buffer(context_, starts, "chunk_starts"),
          make_buffer(context_, entries, "chunk_entries")};
}

void PartCosts::record(CommandList& list, const Buffer& x, const ChunkColumns& columns,
                       std::uint32_t first) {
  // That kernel counts the instances that fail a guard.
  if (terms_.have_guards()) terms_.record_cost(list, x, Scalar::cost);
  rows_.record(list, Pass::cost, terms_.operands(x));
  list.barrier();
  for (std::uint32_t k = 0; k < terms_.size(); ++k) {
    if (!terms_[k]) continue;
    sums_.record(list,
                 kernel::chunk_numbers{{.numbers = rows_.result(list, Pass::cost, k),
                                        .starts = instances_[k].starts,
                                        .entries = instances_[k].entries},
                                       {}},
                 columns, first + k);
  }
}

// As the engine of the CPU: squares, then energies.
double PartCosts::total(ChunkColumns& columns, std::uint32_t first) const {
  std::vector<double> both(std::size_t{2} * sums_.chunks());
  for (std::uint32_t k = 0; k < terms_.size(); ++k) {
    if (!terms_[k]) continue;
    const bool energy = problem_.model().terms[k].energy;
    const std::span<double> to =
        std::span(both).subspan(energy ? sums_.chunks() : 0, sums_.chunks());
    const std::span<const double> from = columns.column(first + k);
    for (std::size_t c = 0; c < to.size(); ++c) to[c] += energy ? from[c] : 2 * from[c];
  }
  const std::vector<double> totals = sums_.totals(both, 2);
  return totals[0] / 2 + totals[1];
}

namespace {

Buffer host_numbers(const Context& context, std::uint32_t count, MemoryKind kind,
                    std::string_view name) {
  return context.device->buffer(std::max(count, 1U) * context.element_bytes(), kind, name);
}

}  // namespace

PartGhosts::PartGhosts(const Part& part, PartLink& link, PartWork& work)
    : Part(part),
      link_(link),
      work_(work),
      borders_(static_cast<std::uint32_t>(link.borders().size())),
      ghosts_(static_cast<std::uint32_t>(link.ghosts().size())),
      border_scalars_(make_buffer(context_, link.borders(), "borders")),
      ghost_scalars_(make_buffer(context_, link.ghosts(), "ghosts")),
      packed_(host_numbers(context_, borders_, MemoryKind::Readback, "packed")),
      received_(host_numbers(context_, ghosts_, MemoryKind::Upload, "received")),
      out_(context_.wide() ? 0 : borders_),
      in_(context_.wide() ? 0 : ghosts_) {}

void PartGhosts::record_pack(CommandList& list, const Buffer& v) {
  if (borders_ == 0) return;
  v_.ops->record(list, kernel::pack{{.source = v, .result = packed_, .places = border_scalars_},
                                    {.count = borders_}});
}

void PartGhosts::exchange() {
  work_.run([&] { recorder_.last().wait(); });
  if (!context_.wide()) return exchange_narrow();
  const auto numbers = [](const Buffer& buffer, std::uint32_t count) {
    return std::span(reinterpret_cast<double*>(buffer.mapped()), count);
  };
  link_.exchange(numbers(packed_, borders_), numbers(received_, ghosts_));
}

void PartGhosts::exchange_narrow() {
  const auto* const packed = reinterpret_cast<const float*>(packed_.mapped());
  std::copy_n(packed, borders_, out_.begin());
  link_.exchange(out_, in_);
  std::ranges::copy(in_, reinterpret_cast<float*>(received_.mapped()));
}

void PartGhosts::record_unpack(CommandList& list, const Buffer& v) {
  if (ghosts_ == 0) return;
  v_.ops->record(list, kernel::unpack{{.source = received_, .result = v, .places = ghost_scalars_},
                                      {.count = ghosts_}});
}

namespace {

/// Terms that are stored need a range, and whether they fit one depends on the division.
EngineOptions of_parts(EngineOptions options) {
  options.accumulation = Accumulation::gather_recompute;
  return options;
}

}  // namespace

namespace {

/// Writes numbers as wide as sums before the next submission.
void write_sums(const Context& context, const Buffer& buffer, std::span<const double> values) {
  if (context.scalar_precision() == Precision::f64)
    return context.device->upload<double>(buffer, values);
  const std::vector<float> narrow(values.begin(), values.end());
  context.device->upload<float>(buffer, narrow);
}

}  // namespace

PartGradients::PartGradients(const Part& part, TermSums& sums, const ChunkSums& chunks,
                             PartGhosts& ghosts, PartWork& work)
    : Part(part),
      sums_(sums),
      chunks_(chunks),
      ghosts_(ghosts),
      work_(work),
      products_(context_, chunks.of(), 2),
      curvature_(context_, chunks.of(), 1),
      number_bytes_(context_.scalar_precision() == Precision::f64 ? sizeof(double) : sizeof(float)),
      beta_(context_.device->buffer(number_bytes_, MemoryKind::Upload, "beta")),
      products_now_(context_.device->buffer(2 * number_bytes_, MemoryKind::Upload, "products")) {
  v_.curvature = make_partials(context_, 1);
}

std::vector<Recorder::List> PartGradients::lists() {
  const auto take_beta = [this](CommandList& l) {
    l.copy(beta_, 0, v_.ops->scalars(), codegen::slot(Scalar::user) * number_bytes_, number_bytes_);
  };
  const auto direct_product = [this, take_beta](CommandList& l) {
    take_beta(l);
    ghosts_.record_unpack(l, v_.preconditioned);
    l.barrier();
    record_direction(l);
    record_product(l);
  };
  const auto direction = [this, take_beta](CommandList& l) {
    take_beta(l);
    l.barrier();
    record_direction(l);
    ghosts_.record_pack(l, v_.direction);
  };
  const auto product = [this](CommandList& l) {
    ghosts_.record_unpack(l, v_.direction);
    l.barrier();
    record_product(l);
  };
  return {{start_, "part_start", [this](CommandList& l) { record_start(l); }},
          {direct_product_, "part_direct_product", direct_product},
          {direction_, "part_direction", direction},
          {product_, "part_product", product},
          {update_, "part_update", [this](CommandList& l) { record_update(l); }}};
}

void PartGradients::record_preconditioned(CommandList& list) {
  list.barrier();
  chunks_.record(list, kernel::chunk_products{{.x = v_.residual, .y = v_.preconditioned}, {}},
                 products_);
  ghosts_.record_pack(list, v_.preconditioned);
}

void PartGradients::record_start(CommandList& list) {
  v_.record_by_blocks(list, v_.preconditioner());
  list.barrier();
  v_.record_by_blocks(list, kernel::cg_init{{.gradient = v_.gradient,
                                             .delta = v_.step,
                                             .residual = v_.residual,
                                             .direction = v_.direction,
                                             .preconditioned = v_.preconditioned,
                                             .fixed_scalars = v_.not_free(),
                                             .partials = v_.partials},
                                            {.out_stride = v_.block_groups()}});
  record_preconditioned(list);
}

void PartGradients::record_direction(CommandList& list) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list,
                 kernel::axpby{{.x = v_.preconditioned, .y = v_.direction},
                               {.count = n, .x_factor = Scalar::one, .y_factor = Scalar::user}});
  list.barrier();
}

void PartGradients::record_product(CommandList& list) {
  sums_.record(list, Pass::jtjp, terms_.operands(v_.x, &v_.direction), v_.product);
  chunks_.record(list,
                 kernel::chunk_curvature{{.direction = v_.direction,
                                          .damping = v_.damping,
                                          .product = v_.product,
                                          .fixed_scalars = v_.not_free()},
                                         {}},
                 curvature_);
}

// The update finds α in r·z and one partial sum of p·q.
void PartGradients::record_update(CommandList& list) {
  list.copy(products_now_, 0, v_.decision, codegen::slot(Scalar::rz) * number_bytes_,
            number_bytes_);
  list.copy(products_now_, number_bytes_, v_.curvature, 0, number_bytes_);
  list.barrier();
  v_.record_by_blocks(list, kernel::cg_update{{.product = v_.product,
                                               .residual = v_.residual,
                                               .direction = v_.direction,
                                               .direction_before = v_.direction,
                                               .delta = v_.step,
                                               .preconditioned = v_.preconditioned,
                                               .fixed_scalars = v_.not_free(),
                                               .partials = v_.partials,
                                               .curvature = v_.curvature,
                                               .decision = v_.decision},
                                              {.out_stride = v_.block_groups(), .sums_count = 1}});
  record_preconditioned(list);
}

PartGradients::Products PartGradients::products() {
  work_.run([&] { products_.read(context_); });
  const std::vector<double> totals = chunks_.totals(products_.numbers, 2);
  return {.rr = totals[0], .rz = totals[1]};
}

double PartGradients::multiply(double beta) {
  if (chunks_.of().mixed) {
    work_.run([&] {
      write_sums(context_, beta_, std::array{beta});
      recorder_.submit(direction_);
    });
    ghosts_.exchange();
    work_.run([&] { recorder_.submit(product_); });
  } else {
    ghosts_.exchange();
    work_.run([&] {
      write_sums(context_, beta_, std::array{beta});
      recorder_.submit(direct_product_);
    });
  }
  work_.run([&] { curvature_.read(context_); });
  return chunks_.totals(curvature_.numbers, 1)[0];
}

PartGradients::Products PartGradients::move(double rz, double curvature) {
  work_.run([&] {
    write_sums(context_, products_now_, std::array{rz, curvature});
    recorder_.submit(update_);
  });
  return products();
}

int PartGradients::solve(const StepRequest& request) {
  const std::pair<Scalar, double> scalars[] = {{Scalar::lambda, request.lambda},
                                               {Scalar::min_diagonal, request.min_diagonal},
                                               {Scalar::max_diagonal, request.max_diagonal},
                                               {Scalar::eta, 0.0}};
  constexpr std::array<double, codegen::kScalarCount> kRunning{};
  work_.run([&] {
    v_.ops->write(scalars);
    write_sums(context_, v_.decision, kRunning);
    recorder_.submit(start_);
  });
  const auto norm = [&](const Products& of) {
    return std::sqrt(request.energy_norm ? of.rz : of.rr);
  };
  Products now = products();
  const double enough = request.linear_tolerance * norm(now);
  GainTest gains(request.eta);
  double beta = 0;
  int iterations = 0;
  while (now.rr > 0 && norm(now) > enough && iterations < request.max_linear_iterations) {
    const double curvature = multiply(beta);
    if (!std::isfinite(curvature) || !(curvature > 0)) break;
    const Products next = move(now.rz, curvature);
    ++iterations;
    if (gains.enough(now.rz * (now.rz / curvature))) break;
    beta = next.rz / now.rz;
    now = next;
  }
  return iterations;
}

PartEngine::PartEngine(const Model& model, const EngineOptions& options)
    : context_(open_context(of_parts(options))), problem_(context_, model) {
  problem_.arrange();
  terms_.build();
  v_ = StepVectors(context_, problem_.model(), 0);
  steps_ = std::make_unique<PartSteps>(part_, options.part, rows_, sums_);
}

PlanRecord PartEngine::plan() const {
  PlanRecord record{.device = device(),
                    .precision = std::string(codegen::name(context_.options.precision)),
                    .workgroup_size = context_.workgroup_size,
                    .product = "recompute"};
  sums_.choices().describe(record);
  return record;
}

std::unique_ptr<RowRunner> PartEngine::row_runner() const {
  return make_row_runner(LaunchContext(open_context(context_.options)));
}

void PartEngine::refresh(const Model&) {
  throw Error(ErrorCode::Unsupported, "vulkan: the part of a model cannot change");
}

void PartEngine::set_point(std::span<const double> x) {
  problem_.write(v_.x, x);
  steps_->moved();
}

namespace {

/// Columns of the reports.
constexpr std::uint32_t kNorms = 0, kScaledNorms = 3, kPointFigures = 7, kTrialFigures = 3;
/// The length of a step, behind the scalar of PartGradients.
constexpr Scalar kLength{codegen::slot(Scalar::user) + 1};

}  // namespace

PartSteps::PartSteps(const Part& part, const std::shared_ptr<const ModelPart>& of, TermRows& rows,
                     TermSums& sums)
    : Part(part),
      chunks_(part, of, work_),
      ghosts_(part, *of->link, work_),
      costs_(part, rows, chunks_),
      sums_(sums),
      gradients_(part, sums, chunks_, ghosts_, work_),
      point_figures_(context_, *of, kPointFigures),
      trial_figures_(context_, *of, kTrialFigures),
      point_cost_(context_, *of, costs_.columns()),
      trial_cost_(context_, *of, costs_.columns()) {
  if (bounded()) {
    lower_ = make_buffer(context_, problem_.model().lower, "lower_bounds");
    upper_ = make_buffer(context_, problem_.model().upper, "upper_bounds");
    v_.held = make_buffer(context_, std::vector<std::uint32_t>(problem_.model().scalars), "held");
  }
  make_lists();
}

void PartSteps::make_lists() {
  const std::uint64_t bytes = problem_.model().scalars * context_.element_bytes();
  std::vector<Recorder::List> lists = gradients_.lists();
  const auto add = [&](Recorded& to, const char* name, Recorder::Record record) {
    lists.push_back({to, name, std::move(record)});
  };
  add(linearize_, "part_linearize", [this](CommandList& l) { record_linearize(l); });
  add(trial_, "part_trial", [this](CommandList& l) { record_trial(l); });
  add(mask_, "part_mask", [this](CommandList& l) { record_mask(l); });
  add(unmask_, "part_unmask", [this](CommandList& l) { ghosts_.record_unpack(l, v_.step); });
  add(accept_, "part_accept", [=, this](CommandList& l) { l.copy(v_.trial, 0, v_.x, 0, bytes); });
  add(cost_list_, "part_cost", [this](CommandList& l) { costs_.record(l, v_.x, point_cost_, 0); });
  add(trial_cost_list_, "part_trial_cost",
      [this](CommandList& l) { costs_.record(l, v_.trial, trial_cost_, 0); });
  // The first step makes a list of these.
  Recorder::declare([this](CommandList& l) {
    for (const bool scaling : {true, false}) record_scale(l, {.jacobi_scaling = scaling});
  });
  recorder_.make_lists(lists);
}

void PartSteps::record_linearize(CommandList& list) {
  sums_.record(list, Pass::gradient, terms_.operands(v_.x), v_.gradient);
  sums_.record_blocks(list, terms_.operands(v_.x));
  v_.record_by_blocks(list, kernel::block_diagonal{{.diagonal = v_.result}, {}});
  if (bounded()) {
    chunks_.record(list,
                   kernel::chunk_bounded_norms{{.gradient = v_.gradient,
                                                .point = v_.x,
                                                .lower_bounds = lower_,
                                                .upper_bounds = upper_,
                                                .fixed_scalars = v_.fixed,
                                                .held_scalars = v_.held},
                                               {}},
                   point_figures_, kNorms);
  } else {
    chunks_.record(list,
                   kernel::chunk_norms{
                       {.gradient = v_.gradient, .point = v_.x, .fixed_scalars = v_.fixed}, {}},
                   point_figures_, kNorms);
  }
  costs_.record(list, v_.x, point_cost_, 0);
  list.barrier();
  chunks_.record(list,
                 kernel::chunk_scaled_norms{{.gradient = v_.gradient,
                                             .point = v_.x,
                                             .delta = v_.step,
                                             .diagonal = v_.result,
                                             .scale = v_.scale,
                                             .fixed_scalars = v_.not_free()},
                                            {}},
                 point_figures_, kScaledNorms);
}

PointReport PartSteps::linearize() {
  work_.run([&] {
    recorder_.submit(linearize_);
    point_figures_.read(context_);
    point_cost_.read(context_);
  });
  const std::span<const double> figures = point_figures_.numbers;
  const std::size_t chunks = chunks_.chunks();
  PointReport report;
  // In the order of the engines on CPUs.
  const std::vector<double> norms = chunks_.totals_and_largest(figures.first(3 * chunks), 3);
  report.cost = costs_.total(point_cost_, 0);
  report.gradient_norm = std::sqrt(norms[0]);
  report.x_norm = std::sqrt(norms[1]);
  report.gradient_max_norm = norms[2];
  const std::vector<double> scaled = chunks_.totals_and_largest(figures.last(4 * chunks), 4);
  report.scaled_gradient_norm = std::sqrt(scaled[0]);
  report.scaled_x_norm = std::sqrt(scaled[1]);
  report.scaled_step_norm = moved_length_ == 0 ? 0 : moved_length_ * std::sqrt(scaled[2]);
  report.scaled_gradient_max = scaled[3];
  work_.finish();
  return report;
}

void PartSteps::record_scale(CommandList& list, const StepRequest& request) {
  if (request.jacobi_scaling) {
    const Scalar added = request.scale_free ? Scalar::zero : Scalar::one;
    v_.record_by_blocks(list, kernel::jacobi_scale{{.scale = v_.scale}, {.added = added}});
    return;
  }
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list, kernel::fill{{.result = v_.scale}, {.count = n, .value = Scalar::one}});
}

void PartSteps::scale(const StepRequest& request) {
  const std::pair<Scalar, double> scalars[] = {{Scalar::scales_later, scales_later(request)}};
  v_.ops->write(scalars);
  if (std::exchange(is_scaled_, true)) return;
  recorder_.submit(
      recorder_.make_list("part_scale", [&](CommandList& list) { record_scale(list, request); }));
}

void PartSteps::record_trial(CommandList& list) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  if (bounded()) {
    v_.ops->record(list, v_.bounded_trial(n, lower_, upper_, kLength));
  } else {
    v_.ops->record(list,
                   kernel::combine{{.x = v_.x, .y = v_.step, .result = v_.trial},
                                   {.count = n, .x_factor = Scalar::one, .y_factor = kLength}});
  }
  list.barrier();
  chunks_.record(list,
                 kernel::chunk_trial{{.point = v_.x,
                                      .trial = v_.trial,
                                      .delta = v_.step,
                                      .residual = v_.residual,
                                      .damping = v_.damping,
                                      .gradient = v_.gradient},
                                     {.bounded = bounded() ? 1u : 0u, .length = kLength}},
                 trial_figures_);
  costs_.record(list, v_.trial, trial_cost_, 0);
}

StepReport PartSteps::move(double length, Move move) {
  const std::pair<Scalar, double> scalars[] = {{kLength, length}};
  work_.run([&] {
    v_.ops->write(scalars);
    recorder_.submit(trial_);
    trial_figures_.read(context_);
    trial_cost_.read(context_);
  });
  moved_length_ = length;
  const StepReport moved = chunks_.of().mixed ? report_with_cpus(move) : report(move);
  work_.finish();
  return moved;
}

StepReport PartSteps::report(Move move) {
  const std::vector<double> figures = chunks_.totals(trial_figures_.numbers, kTrialFigures);
  StepReport report{.step_norm = std::sqrt(figures[1]), .trial_cost = costs_.total(trial_cost_, 0)};
  if (move == Move::solved) report.model_decrease = figures[0];
  if (move == Move::solved || (move == Move::given && bounded())) report.slope = figures[2];
  return report;
}

StepReport PartSteps::report_with_cpus(Move move) {
  const std::span<const double> decrease = trial_figures_.column(0),
                                slope = trial_figures_.column(2);
  StepReport report;
  if (move == Move::solved) {
    report.slope = chunks_.totals(slope, 1)[0];
    std::vector<double> squares(2 * slope.size());  // of Jδ; and of energies, which have none
    for (std::size_t c = 0; c < slope.size(); ++c) squares[c] = -2 * (decrease[c] + slope[c]);
    report.model_decrease = -report.slope - chunks_.totals(squares, 2)[0] / 2;
  }
  report.step_norm = std::sqrt(chunks_.totals(trial_figures_.column(1), 1)[0]);
  report.trial_cost = costs_.total(trial_cost_, 0);
  if (move == Move::given && bounded()) report.slope = chunks_.totals(slope, 1)[0];
  return report;
}

StepReport PartSteps::try_step(const StepRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  work_.run([&] { scale(request); });
  const int iterations = gradients_.solve(request);
  if (chunks_.of().mixed) share_step();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  StepReport report = move(1, Move::solved);
  report.linear_iterations = iterations;
  report.linear_seconds = elapsed.count();
  return report;
}

// A bound can be active at a ghost, which only the part that owns it knows.
void PartSteps::record_mask(CommandList& list) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  const bool masked = bounded() || !problem_.model().constant.empty();
  if (masked) {
    v_.ops->record(list,
                   kernel::mask{{.result = v_.step, .fixed_scalars = v_.not_free()}, {.count = n}});
    list.barrier();
  }
  ghosts_.record_pack(list, v_.step);
}

void PartSteps::share_step() {
  work_.run([&] { recorder_.submit(mask_); });
  ghosts_.exchange();
  work_.run([&] { recorder_.submit(unmask_); });
}

StepReport PartSteps::try_step(std::span<const double> delta) {
  work_.run([&] { problem_.write(v_.step, delta); });
  share_step();
  return move(1, Move::given);
}

StepReport PartSteps::rescale_step(double length) { return move(length, Move::rescaled); }

void PartSteps::accept() { recorder_.submit(accept_); }

double PartSteps::cost_by(const Recorded& list, ChunkColumns& columns) {
  work_.run([&] {
    recorder_.submit(list);
    columns.read(context_);
  });
  const double cost = costs_.total(columns, 0);
  work_.finish();
  return cost;
}

double PartSteps::cost() { return cost_by(cost_list_, point_cost_); }

double PartSteps::trial_cost() { return cost_by(trial_cost_list_, trial_cost_); }

void PartSteps::transfer(ir::StateRecord& record) {
  record.value("columns scaled", is_scaled_);
  if (!is_scaled_) return;
  if (context_.wide()) {
    transfer_scale<double>(record);
  } else {
    transfer_scale<float>(record);
  }
  work_.finish();
}

// In the precision of the point, as engines of CPUs have it.
template <class T>
void PartSteps::transfer_scale(ir::StateRecord& record) {
  std::vector<double> scale(problem_.model().scalars);
  if (!record.restores()) work_.run([&] { problem_.read(v_.scale, scale); });
  std::vector<T> numbers(scale.begin(), scale.end());
  record.by_unknown("column scaling", std::span(numbers));
  if (!record.restores()) return;
  scale.assign(numbers.begin(), numbers.end());
  work_.run([&] { problem_.write(v_.scale, scale); });
}

}  // namespace topograd::runtime::vulkan
