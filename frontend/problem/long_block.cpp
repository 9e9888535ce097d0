// Parts of a tape, long residual blocks, and those that serve as instances of topologies.
#include "long_block.hpp"

#include "../traced_function.hpp"
#include "problem_state.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <utility>

namespace topograd::detail {
namespace {

// Measured with one thread on chains of 20 to 400 steps and on normals of 1 to 2,000 triangles, s:
// an operation of a sweep, for each unknown of its derivatives, and a block; an operation of a
// kernel of the interpreter with its derivatives, for all lanes.
constexpr double kSweptOperation = 2e-9, kSweptDerivative = 0.4e-9, kBlock = 30e-9;
constexpr double kKernelOperation = 20e-9, kLanes = 16;

}  // namespace

void TapeParts::find_needed(std::span<const TapeNode> nodes, std::span<const std::uint32_t> rows) {
  if (seen_.size() < nodes.size()) seen_.resize(nodes.size(), 0);
  if (++stamp_ == 0) {
    std::ranges::fill(seen_, 0);
    ++stamp_;
  }
  open_.clear();
  const auto need = [&](std::uint32_t at) {
    if (std::exchange(seen_[at], stamp_) != stamp_) open_.push_back(at);
  };
  for (const std::uint32_t row : rows) need(row);
  for (std::size_t k = 0; k < open_.size(); ++k) {
    const std::uint32_t at = open_[k];
    const TapeNode& node = nodes[at];
    const std::uint32_t back[3] = {node.a, node.b, node.c};
    for (int j = 0; j < ir::arity(node.op()); ++j) need(at - back[j]);
  }
}

std::size_t TapeParts::count_operations(std::span<const TapeNode> nodes,
                                        std::span<const std::uint32_t> rows) {
  find_needed(nodes, rows);
  return static_cast<std::size_t>(
      std::ranges::count_if(open_, [&](std::uint32_t at) { return !ir::is_leaf(nodes[at].op()); }));
}

RawTape TapeParts::extract(std::span<const TapeNode> nodes, std::span<const std::uint32_t> rows) {
  find_needed(nodes, rows);
  std::ranges::sort(open_);
  if (where_.size() < nodes.size()) where_.resize(nodes.size());
  part_.clear();
  for (const std::uint32_t at : open_) {
    TapeNode node = nodes[at];
    where_[at] = static_cast<std::uint32_t>(part_.size());
    std::uint32_t* const back[3] = {&node.a, &node.b, &node.c};
    for (int j = 0; j < ir::arity(node.op()); ++j) *back[j] = where_[at] - where_[at - *back[j]];
    part_.push_back(node);
  }
  part_rows_.clear();
  for (const std::uint32_t row : rows) part_rows_.push_back(where_[row]);
  return {part_, part_rows_};
}

double swept_seconds(std::size_t operations, std::size_t unknowns, std::size_t blocks) {
  const double operation = kSweptOperation + kSweptDerivative * static_cast<double>(unknowns);
  return static_cast<double>(operations) * operation + static_cast<double>(blocks) * kBlock;
}

double KernelTime::seconds(std::size_t alike) const {
  double out = 0;
  for (const auto& [operations, count] : instances_) {
    const double lanes = static_cast<double>(count * alike) / kLanes;
    out += static_cast<double>(operations) * kKernelOperation * std::max(lanes, 1.0) /
           static_cast<double>(alike);
  }
  return out;
}

double KernelTime::least_seconds() const {
  return static_cast<double>(total_) * kKernelOperation / kLanes;
}

}  // namespace topograd::detail

namespace topograd::detail {
namespace {

/// The block of unknowns that contains a scalar: its first scalar and its width.
std::pair<std::uint32_t, std::uint32_t> block_of(const Unknowns& unknowns, std::uint32_t scalar) {
  const ParameterArray& array = unknowns.arrays()[unknowns.array_number(scalar)];
  const std::uint32_t coordinate = (scalar - array.offset) % array.width;
  return {scalar - coordinate, array.width};
}

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

LongBlock::LongBlock(const ProblemState& state, const RawTape& raw, const PlainProgram& plain)
    : state_(state),
      serial_(next_serial()),
      row_count_(raw.rows.size()),
      nodes_(raw.nodes.begin(), raw.nodes.end()),
      rows_(raw.rows.begin(), raw.rows.end()),
      uniforms_(plain.uniforms) {
  choose_sweep(plain.program);
  find_unknowns(plain.parameters);
  for (const std::uint32_t node : plain.data) {
    const TapeNode& leaf = nodes_[node];
    const bool bound = (leaf.head & kBound) != 0;
    data_.push_back({bound ? 0 : number_of(leaf), bound ? leaf.a : 0, bound});
  }
}

LongBlock::LongBlock(const ProblemState& state, std::shared_ptr<const ArrayExpression> arrays)
    : state_(state),
      serial_(next_serial()),
      row_count_(arrays->rows()),
      arrays_(std::move(arrays)) {
  description_.rolling = Rolling::arrays;
  description_.array_operations = arrays_->array_operations();
  description_.work_bytes = arrays_->work_bytes();
  find_unknowns(arrays_->parameters());
}

void LongBlock::find_unknowns(std::span<const std::uint32_t> scalars) {
  arguments_ = arguments_of(state_, scalars);
  std::uint32_t argument = 0;
  for (const std::uint32_t scalar : scalars) {  // ascending
    while (scalar >= arguments_.offsets[argument] + arguments_.widths[argument]) ++argument;
    unknowns_.push_back({argument, scalar - arguments_.offsets[argument]});
  }
}

const LongBlock& LongBlock::written() const {
  std::call_once(written_made_, [&] {
    const FinishResidual finish;
    const Caller caller = state_.caller("add_residual", "long expression");
    CompactTape tape;
    tape.assign(row_nodes(arrays_->write(), caller));
    const PlainProgram plain = plain_program(
        tape.view(), [](const TapeNode& node) { return node.a; }, caller);
    written_ = std::make_unique<const LongBlock>(state_, tape.view(), plain);
  });
  return *written_;
}

std::size_t LongBlock::operations() const {
  if (arrays_) return arrays_->operations();
  return rolled_ ? rolled_->operations() : sweep_->operations();
}

LongBlock::Arguments LongBlock::arguments_of(const ProblemState& state,
                                             std::span<const std::uint32_t> scalars) {
  Arguments out;
  for (const std::uint32_t scalar : scalars) {
    const auto [offset, width] = block_of(state.unknowns, scalar);
    if (!out.offsets.empty() && out.offsets.back() == offset) continue;
    out.offsets.push_back(offset);
    out.widths.push_back(width);
  }
  return out;
}

void LongBlock::choose_sweep(const ir::Program& program) {
  const std::size_t parameters = program.leaves.parameters;
  is_backward_ = autodiff::NodeSweep::prefers_reverse(rows_.size(), parameters);
  autodiff::RolledSweep::Obstacle why;
  rolled_ = autodiff::RolledSweep::make(program, &why);
  description_.repeated = why.repeated;
  description_.given_up = why.given_up;
  if (rolled_) {
    const autodiff::RolledSweep::Facts& facts = rolled_->facts();
    description_.steps = facts.steps;
    description_.states = facts.states;
    description_.step_operations = facts.operations;
    description_.rolling = Rolling::loop;
    for (const autodiff::RolledSweep::Facts& loop : rolled_->loops())
      description_.loops.push_back({loop.steps, loop.states, loop.operations});
    const bool is_large = rolled_->operations() >= LongBlocks::kManyOperations;
    if (facts.operations > LongBlocks::kMostInStep && !is_large)
      description_.rolling = Rolling::wide;
    if (is_backward_ && !is_large) description_.rolling = Rolling::backward;
  } else if (is_backward_) {
    description_.rolling = Rolling::backward;
  }
  if (description_.rolling == Rolling::loop) {
    description_.work_bytes =
        is_backward_ ? rolled_->backward_bytes() : rolled_->workspace_bytes(parameters);
    return;
  }
  rolled_.reset();
  description_.loops.clear();
  sweep_.emplace(program);
}

LongExpression LongBlock::description() const {
  LongExpression out = description_;
  out.rows = row_count_;
  out.unknowns = unknowns_.size();
  out.operations = operations();
  out.bytes = bytes();
  return out;
}

std::size_t LongBlock::bytes() const {
  if (arrays_) return sizeof(*this) + arrays_->bytes() + unknowns_.capacity() * sizeof(Unknown);
  return sizeof(*this) + nodes_.capacity() * sizeof(TapeNode) +
         (rolled_ ? rolled_->bytes() : sweep_->bytes()) + unknowns_.capacity() * sizeof(Unknown) +
         data_.capacity() * sizeof(Datum) +
         (rows_.capacity() + uniforms_.capacity()) * sizeof(std::uint32_t);
}

/// What the slots of the program read.
struct LongBlock::Inputs {
  std::vector<double> parameters, data, uniforms;
  std::vector<autodiff::NodeSweep::Column> columns;
  autodiff::NodeSweep::Workspace work;

  ir::Inputs<double> view() const {
    return {
        .parameters = parameters, .data = data, .uniforms = uniforms, .tangents = {}, .seeds = {}};
  }
};

void LongBlock::read_data(Inputs& numbers) const {
  const std::span<const double> entries =
      state_.data.size() == 0 ? std::span<const double>() : state_.data.numbers();
  numbers.data.clear();
  if (arrays_) return numbers.data.assign(entries.begin(), entries.end());
  for (const Datum& datum : data_)
    numbers.data.push_back(datum.bound ? entries[datum.entry] : datum.number);
  numbers.uniforms.clear();
  for (const std::uint32_t uniform : uniforms_)
    numbers.uniforms.push_back(state_.uniforms[uniform]);
}

bool LongBlock::add_curvature(std::span<const double> x, std::span<const double> weights,
                              std::span<const double> p, std::span<double> out) const {
  if (arrays_) return written().add_curvature(x, weights, p, out);
  if (rolled_ && !rolled_->has_curvature()) return false;
  std::call_once(curvature_made_, [&] {
    if (rolled_) return;
    const PlainProgram plain = plain_program(
        tape(), [](const TapeNode& node) { return node.a; },
        state_.caller("add_residual", "long expression"));
    curvature_ = autodiff::CurvatureSweep::make(plain.program);
  });
  if (!rolled_ && !curvature_) return false;
  Inputs numbers;
  read_data(numbers);
  std::vector<double> direction, product(unknowns_.size(), 0);
  const auto scalar = [&](const Unknown& unknown) {
    return arguments_.offsets[unknown.argument] + unknown.coordinate;
  };
  for (const Unknown& unknown : unknowns_) {
    numbers.parameters.push_back(x[scalar(unknown)]);
    direction.push_back(p[scalar(unknown)]);
  }
  if (rolled_) {
    rolled_->add_curvature(numbers.view(), weights, direction, product, numbers.work);
  } else {
    curvature_->add(numbers.view(), weights, direction, product);
  }
  for (std::size_t k = 0; k < unknowns_.size(); ++k) out[scalar(unknowns_[k])] += product[k];
  return true;
}

bool LongBlock::evaluate(const double* const* blocks, double* residuals, double** jacobians) const {
  thread_local Inputs numbers;
  numbers.parameters.clear();
  for (const Unknown& unknown : unknowns_)
    numbers.parameters.push_back(blocks[unknown.argument][unknown.coordinate]);
  read_data(numbers);
  const ir::Inputs<double> in = numbers.view();
  const std::span<double> out(residuals, row_count_);
  if (jacobians == nullptr) {
    if (arrays_) {
      arrays_->evaluate(in, out, numbers.work);
    } else if (rolled_) {
      rolled_->evaluate(in, out, numbers.work);
    } else {
      sweep_->evaluate(in, out, numbers.work);
    }
    return true;
  }
  for (std::size_t k = 0; k < arguments_.widths.size(); ++k)
    if (jacobians[k] != nullptr) std::fill_n(jacobians[k], row_count_ * arguments_.widths[k], 0.0);
  numbers.columns.clear();
  for (const Unknown& unknown : unknowns_) {
    double* const first = jacobians[unknown.argument];
    numbers.columns.push_back({first == nullptr ? nullptr : first + unknown.coordinate,
                               arguments_.widths[unknown.argument]});
  }
  if (arrays_) {
    if (!arrays_->linearize(in, out, numbers.columns, numbers.work))
      return written().evaluate(blocks, residuals, jacobians);
  } else if (rolled_ && is_backward_) {
    rolled_->linearize_backward(in, out, numbers.columns, numbers.work);
  } else if (rolled_) {
    rolled_->linearize(in, out, numbers.columns, numbers.work);
  } else {
    sweep_->linearize(in, out, numbers.columns, numbers.work);
  }
  return true;
}

struct LongBlock::Point {
  std::uint64_t serial = 0, data = 0, uniforms = 0;
  std::vector<double> x;
  bool operator==(const Point&) const = default;
};

LongBlock::Point LongBlock::point(const double* const* blocks) const {
  Point out{.serial = serial_,
            .data = state_.versions.data,
            .uniforms = state_.versions.uniforms,
            .x = {}};
  out.x.reserve(unknowns_.size());
  for (const Unknown& unknown : unknowns_)
    out.x.push_back(blocks[unknown.argument][unknown.coordinate]);
  return out;
}

const LongBlock::Shared& LongBlock::shared(const double* const* blocks, bool derivatives) const {
  struct Known {
    Point point;
    bool derivatives = false;
    Shared numbers;
  };
  thread_local std::array<Known, 64> all;  // several blocks may be evaluated in turn
  Known& known = all[serial_ % all.size()];
  Point now = point(blocks);
  const bool has_nan = std::ranges::any_of(now.x, [](double v) { return v != v; });
  if (!has_nan && known.point == now && (known.derivatives || !derivatives)) return known.numbers;
  known.point = {};  // none, should an evaluation throw
  known.numbers.residuals.resize(row_count_);
  known.numbers.jacobians.resize(arguments_.widths.size());
  std::vector<double*> jacobians;
  for (std::size_t k = 0; derivatives && k < arguments_.widths.size(); ++k) {
    known.numbers.jacobians[k].resize(row_count_ * arguments_.widths[k]);
    jacobians.push_back(known.numbers.jacobians[k].data());
  }
  evaluate(blocks, known.numbers.residuals.data(), derivatives ? jacobians.data() : nullptr);
  known.point = std::move(now);
  known.derivatives = derivatives;
  return known.numbers;
}

bool LongRows::evaluate_run(std::size_t rows, const double* const* blocks, double* residuals,
                            double** jacobians) const {
  const LongBlock::Shared& shared = whole_->shared(blocks, jacobians != nullptr);
  std::copy_n(shared.residuals.begin() + static_cast<std::ptrdiff_t>(first_), rows, residuals);
  if (jacobians == nullptr) return true;
  const std::vector<std::uint32_t>& widths = whole_->arguments().widths;
  for (std::size_t k = 0; k < widths.size(); ++k) {
    if (jacobians[k] == nullptr) continue;
    const auto begin = static_cast<std::ptrdiff_t>(first_ * widths[k]);
    std::copy_n(shared.jacobians[k].begin() + begin, rows * widths[k], jacobians[k]);
  }
  return true;
}

namespace {

/// True if kernels of the rows take less time than the sweeps of one long block that has them.
///
///   width  rows of a block, which gets a topology of its own
///   alike  such tapes of the problem
bool kernels_win(const RawTape& raw, std::size_t width, std::size_t unknowns, std::size_t alike) {
  TapeParts parts;
  const std::size_t operations = parts.count_operations(raw.nodes, raw.rows);
  const double swept = swept_seconds(operations, unknowns, raw.rows.size() / width);
  KernelTime kernels;
  for (std::size_t row = 0; row < raw.rows.size(); row += width) {
    kernels.add(parts.count_operations(raw.nodes, raw.rows.subspan(row, width)));
    if (kernels.least_seconds() > swept) return false;  // a chain has as many parts as rows
  }
  return kernels.seconds(alike) < swept;
}

}  // namespace

bool LongBlocks::are_many(ProblemState& state, std::uint64_t hash) {
  Alike& alike = seen_[hash];
  if (alike.count < kMostAlike) return false;
  const auto known = std::ranges::find(added_, hash, &Added::hash);
  if (known == added_.end()) return true;
  const RawTape raw = known->block->tape();
  if (!alike.get_kernels) {
    const std::size_t width =
        known->part ? static_cast<std::size_t>(known->part->rows()) : raw.rows.size();
    alike.get_kernels = kernels_win(raw, width, known->block->unknowns(), alike.count + 1);
  }
  if (!*alike.get_kernels) return false;
  seen_[shape_hash(raw)].count = kMostAlike;
  trace_if(state, [&](const Added& added) { return added.hash == hash; });
  return true;
}

std::shared_ptr<const LongBlock> LongBlocks::make(ProblemState& state, const RawTape& raw,
                                                  std::uint64_t hash, std::size_t width,
                                                  const Caller& caller) {
  if (are_many(state, hash)) return nullptr;
  const PlainProgram plain = plain_program(
      raw, [](const TapeNode& node) { return node.a; }, caller);
  const std::size_t unknowns = plain.parameters.size();
  if (unknowns * raw.rows.size() > kMostDerivatives ||
      (unknowns > kMostUnknowns && kernels_win(raw, width, unknowns, 1)))
    return nullptr;
  ++seen_[hash].count;
  return std::make_shared<const LongBlock>(state, raw, plain);
}

std::uint64_t LongBlocks::append(ProblemState& state, Added added, const ResidualOptions& options) {
  const std::string_view label = options.label.empty() ? "long expression" : options.label;
  HostBlock block{.function = added.block,
                  .offsets = added.block->arguments().offsets,
                  .widths = added.block->arguments().widths,
                  .loss = options.loss,
                  .label = state.labels.number(label)};
  if (added.part) block.function = added.part;
  block.rows = static_cast<std::uint32_t>(block.function->rows());
  added.label = block.label;
  added.id = state.blocks.append(std::move(block));
  added_.push_back(std::move(added));
  return added_.back().id;
}

std::optional<std::uint64_t> LongBlocks::add(ProblemState& state, const RawTape& raw,
                                             const ResidualOptions& options, const Caller& caller) {
  if (raw.nodes.size() < kLeastNodes || !raw.guards.empty() || KernelsOnly::in_force())
    return std::nullopt;
  const std::uint64_t hash = shape_hash(raw);
  std::shared_ptr<const LongBlock> block = make(state, raw, hash, raw.rows.size(), caller);
  if (block == nullptr) return std::nullopt;
  return append(state, {std::move(block), nullptr, hash, 0}, options);
}

std::optional<std::uint64_t> LongBlocks::add_parts(ProblemState& state, const RawTape& raw,
                                                   std::size_t width,
                                                   const ResidualOptions& options,
                                                   const Caller& caller, std::size_t least) {
  if (raw.nodes.size() < least || !raw.guards.empty()) return std::nullopt;
  const std::uint64_t hash = shape_hash(raw);
  const std::shared_ptr<const LongBlock> block = make(state, raw, hash, width, caller);
  if (block == nullptr) return std::nullopt;
  return append_parts(state, block, hash, width, options);
}

std::uint64_t LongBlocks::append_parts(ProblemState& state,
                                       const std::shared_ptr<const LongBlock>& block,
                                       std::uint64_t hash, std::size_t width,
                                       const ResidualOptions& options) {
  std::uint64_t first = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(block->rows()); row += width) {
    const std::uint64_t id = append(
        state, {block, std::make_shared<const LongRows>(block, row, width), hash, 0}, options);
    if (row == 0) first = id;
  }
  return first;
}

std::optional<std::uint64_t> LongBlocks::add_arrays(ProblemState& state,
                                                    std::shared_ptr<const ArrayExpression> arrays,
                                                    std::size_t width,
                                                    const ResidualOptions& options) {
  const std::size_t unknowns = arrays->parameters().size(), rows = arrays->rows();
  const std::uint64_t hash = arrays->hash();
  if (unknowns > kMostUnknowns || unknowns * rows > kMostDerivatives ||
      autodiff::NodeSweep::prefers_reverse(rows, unknowns) || are_many(state, hash))
    return std::nullopt;
  ++seen_[hash].count;
  const auto block = std::make_shared<const LongBlock>(state, std::move(arrays));
  return append_parts(state, block, hash, width, options);
}

void LongBlocks::trace(ProblemState& state, const Added& added) {
  const std::optional<HostBlock> block = state.blocks.take_host_block(added.id);
  if (!block) return;  // it was removed
  if (!added.part) return put_back(state, added.block->tape(), *block);
  const RawTape raw = added.block->tape();
  const auto rows = raw.rows.subspan(added.part->first(), block->rows);
  put_back(state, parts_.extract(raw.nodes, rows), *block);
}

void LongBlocks::put_back(ProblemState& state, const RawTape& raw, const HostBlock& block) {
  const std::uint32_t loss = state.loss_entry("add_residual", block.loss);
  const std::uint32_t program = state.blocks.losses[loss].program;
  const Caller caller = state.caller("add_residual", state.labels.text(block.label));
  const std::uint32_t group = match_tape(state, raw, caller, program);
  state.blocks.put_back(block, state.blocks.variant(group, program), state.tracing.row, loss);
}

bool LongBlocks::share(ProblemState& state, const RawTape& raw,
                       std::span<const std::uint64_t> ids) {
  const Caller caller = state.caller("add_residual", "");
  const PlainProgram plain = plain_program(
      raw, [](const TapeNode& node) { return node.a; }, caller);
  if (plain.parameters.size() > kMostUnknowns ||
      plain.parameters.size() * raw.rows.size() > kMostDerivatives)
    return false;
  const auto whole = std::make_shared<const LongBlock>(state, raw, plain);
  std::size_t row = 0;
  for (const std::uint64_t id : ids) {
    HostBlock* const block = state.blocks.change_host_block(id);
    if (block == nullptr) return false;
    const auto part = std::make_shared<const LongRows>(whole, row, block->rows);
    row += block->rows;
    block->function = part;
    block->offsets = whole->arguments().offsets;
    block->widths = whole->arguments().widths;
    added_.push_back({whole, part, shape_hash(raw), block->label, id});
  }
  return true;
}

template <class Chosen>
void LongBlocks::trace_if(ProblemState& state, const Chosen& chosen) {
  for (const Added& added : added_)
    if (chosen(added)) trace(state, added);
  std::erase_if(added_, chosen);
}

void LongBlocks::trace(ProblemState& state) {
  trace_if(state, [](const Added&) { return true; });
}

std::vector<LongBlocks::Instance> LongBlocks::trace_for_now(ProblemState& state) {
  trace_if(state, [&](const Added& added) {
    const HostBlock* const block = state.blocks.change_host_block(added.id);
    return block != nullptr && !block->loss.is_trivial();
  });
  std::vector<Instance> instances;
  for (std::size_t k = 0; k < added_.size();) {
    const Added& first = added_[k];
    const RawTape whole = first.block->tape();
    Instance instance;
    std::vector<std::uint32_t> rows;
    std::uint64_t next = 0;
    for (; k < added_.size() && added_[k].block == first.block; ++k) {
      const HostBlock* const block = state.blocks.change_host_block(added_[k].id);
      if (block == nullptr) continue;  // it was removed
      if (!instance.blocks.empty() && block->row != next) break;
      next = block->row + block->rows;
      instance.blocks.push_back(*block);
      const std::size_t at = added_[k].part ? added_[k].part->first() : 0;
      const auto of = whole.rows.subspan(at, block->rows);
      rows.insert(rows.end(), of.begin(), of.end());
    }
    if (instance.blocks.empty()) continue;
    for (const HostBlock& block : instance.blocks) state.blocks.take_host_block(block.id);
    put_back(state, first.part ? parts_.extract(whole.nodes, rows) : whole,
             instance.blocks.front());
    instance.id = instance.blocks.front().id;
    instances.push_back(std::move(instance));
  }
  return instances;
}

void LongBlocks::put_back(ProblemState& state, std::vector<Instance> instances) {
  for (Instance& instance : instances)
    state.blocks.put_back_on_host(instance.id, std::move(instance.blocks));
}

void LongBlocks::settle(ProblemState& state) {
  const auto is_whole = [](const Added& added) { return added.part == nullptr; };
  std::uint64_t own = 0, others = 0;
  for (const Added& added : added_)
    if (is_whole(added)) own += added.block->operations();
  if (own == 0) return;
  for (const Group& group : state.blocks.groups)
    others += group.batch.size() * ir::operation_count(group.topology.program);
  if (others > own) trace_if(state, is_whole);
}

/// Adds what first derivatives give: ρ′ Jᵀ J p + 2 ρ″ (Jᵀ r) (rᵀ J p); writes the weights ρ′ r.
void LongBlocks::add_products(const HostBlock& block, std::span<const double> x,
                              std::span<const double> p, bool with_losses,
                              std::span<double> weights, std::span<double> out) {
  std::vector<const double*> arguments;
  std::vector<std::vector<double>> jacobians;
  std::vector<double*> entries;
  for (std::size_t k = 0; k < block.offsets.size(); ++k) {
    arguments.push_back(x.data() + block.offsets[k]);
    jacobians.emplace_back(std::size_t{block.rows} * block.widths[k]);
    entries.push_back(jacobians.back().data());
  }
  std::vector<double> r(block.rows), along(block.rows, 0);
  block.function->evaluate(arguments.data(), r.data(), entries.data());
  const auto for_entries = [&](const auto& f) {
    for (std::size_t k = 0; k < block.offsets.size(); ++k)
      for (std::uint32_t row = 0; row < block.rows; ++row)
        for (std::uint32_t c = 0; c < block.widths[k]; ++c)
          f(row, block.offsets[k] + c, jacobians[k][row * block.widths[k] + c]);
  };
  for_entries([&](std::uint32_t row, std::uint32_t at, double d) { along[row] += d * p[at]; });
  double slope = 1, curvature = 0;
  if (with_losses && !block.loss.is_trivial()) {
    double s = 0, r_along = 0;
    for (std::uint32_t row = 0; row < block.rows; ++row) {
      s += r[row] * r[row];
      r_along += r[row] * along[row];
    }
    const std::array<double, 3> rho = block.loss.evaluate(s);
    slope = rho[1];
    curvature = 2 * rho[2] * r_along;
  }
  for_entries([&](std::uint32_t row, std::uint32_t at, double d) {
    out[at] += d * (slope * along[row] + curvature * r[row]);
  });
  for (std::uint32_t row = 0; row < block.rows; ++row) weights[row] = slope * r[row];
}

bool LongBlocks::hvp(const ProblemState& state, std::span<const double> x,
                     std::span<const double> p, bool with_losses, std::span<double> out) const {
  const bool has_others = std::ranges::any_of(
      state.blocks.groups, [](const Group& group) { return group.batch.size() > 0; });
  if (has_others || added_.empty()) return false;
  std::unordered_map<std::uint64_t, const HostBlock*> by_id;
  for (const HostBlock& block : state.blocks.host_blocks) by_id.emplace(block.id, &block);
  std::size_t known = 0;
  for (const Added& added : added_) known += by_id.contains(added.id);
  if (known != by_id.size()) return false;
  std::fill(out.begin(), out.end(), 0.0);
  for (std::size_t k = 0; k < added_.size();) {
    const LongBlock& whole = *added_[k].block;
    std::vector<double> weights(static_cast<std::size_t>(whole.rows()), 0);
    for (; k < added_.size() && added_[k].block.get() == &whole; ++k) {
      const auto block = by_id.find(added_[k].id);
      if (block == by_id.end()) continue;  // it was removed
      const std::size_t first = added_[k].part ? added_[k].part->first() : 0;
      add_products(*block->second, x, p, with_losses, std::span(weights).subspan(first), out);
    }
    if (!whole.add_curvature(x, weights, p, out)) return false;
  }
  return true;
}

std::vector<LongExpression> LongBlocks::describe(const ProblemState& state) const {
  std::vector<LongExpression> out;
  const LongBlock* last = nullptr;
  for (const Added& added : added_) {
    if (added.block.get() == last) {
      ++out.back().blocks;
      continue;
    }
    last = added.block.get();
    out.push_back(last->description());
    out.back().label = state.labels.text(added.label);
    if (out.back().label.empty()) out.back().label = "long expression";
    out.back().blocks = 1;
  }
  return out;
}

}  // namespace topograd::detail

namespace topograd {

namespace {

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

std::string text(const LongExpression& expression) {
  const std::string each = counted(expression.step_operations, "operation");
  switch (expression.rolling) {
    case Rolling::loop:
      if (expression.states == 0)
        return "a map of " + std::to_string(expression.steps) + " instances, each of " + each;
      return "a loop of " + std::to_string(expression.steps) + " steps, each of " + each + " on " +
             std::to_string(expression.states) + (expression.states == 1 ? " state" : " states");
    case Rolling::backward:
      return "no loop: derivatives go backward, for " + std::to_string(expression.unknowns) +
             " unknowns and " + std::to_string(expression.rows) +
             (expression.rows == 1 ? " row" : " rows");
    case Rolling::wide: return "no loop: each step has " + each + ", which go op by op";
    case Rolling::arrays:
      return counted(expression.array_operations, "operation") + " on arrays of " +
             std::to_string(expression.operations /
                            std::max<std::size_t>(expression.array_operations, 1)) +
             " numbers on average";
    case Rolling::irregular:
      if (expression.given_up > 0)
        return "no loop: " + counted(expression.given_up, "loop") +
               " found, with steps that read what has no fixed distance from them";
      return "no loop: " + std::to_string(std::lround(100 * expression.repeated)) +
             " % of the operations repeat in equal steps, and half of them would have to";
  }
  return {};
}

}  // namespace topograd
