// Bases of tangents, projections on bounds, moves and their norms, and lists of accepted points.
#include "point_moves.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;
using codegen::Scalar;

DeviceManifolds::DeviceManifolds(Context& context, VectorOps& vectors, const Manifolds& manifolds,
                                 const PackedStart& packed_start, std::uint64_t packed_size)
    : context_(context), vectors_(vectors) {
  const std::uint64_t bytes = packed_size * context.element_bytes();
  if (bytes > context.max_range()) {
    throw Error(ErrorCode::Unsupported,
                "vulkan: manifolds: the diagonal blocks need a storage buffer range of " +
                    std::to_string(bytes) + " bytes, the device has " +
                    std::to_string(context.max_range()) +
                    "; use a linear solver on the host (cholesky)");
  }
  for (const ManifoldBlocks& manifold_blocks : manifolds.all) {
    const std::uint64_t square = std::uint64_t{manifold_blocks.width} * manifold_blocks.width;
    const std::uint64_t most =
        std::max<std::uint64_t>(std::min(context.max_range() / (square * context.element_bytes()),
                                         context.max_range() / (4 * manifold_blocks.width)),
                                1);
    for (std::size_t first = 0; first < manifold_blocks.blocks.size(); first += most) {
      const auto count = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(most, manifold_blocks.blocks.size() - first));
      add(manifold_blocks, first, count, packed_start);
    }
  }
}

void DeviceManifolds::add(const ManifoldBlocks& manifold_blocks, std::size_t first,
                          std::uint32_t count, const PackedStart& packed_start) {
  const auto blocks = std::span(manifold_blocks.blocks).subspan(first, count);
  std::vector<std::uint32_t> index(std::size_t{manifold_blocks.width} * count), packed(count);
  for (std::uint32_t b = 0; b < count; ++b) {
    packed[b] = packed_start(blocks[b]);
    for (std::uint32_t k = 0; k < manifold_blocks.width; ++k)
      index[std::size_t{k} * count + b] = blocks[b] + k;
  }
  Piece piece;
  piece.manifold_blocks = &manifold_blocks;
  piece.first = first;
  piece.count = count;
  piece.index = make_buffer(context_, index, "manifold_index");
  piece.firsts = make_buffer(context_, blocks, "manifold_blocks");
  piece.packed_starts = make_buffer(context_, packed, "manifold_packed");
  piece.basis =
      make_numbers(context_, std::uint64_t{manifold_blocks.width} * manifold_blocks.width * count,
                   "manifold_basis");
  piece.moved =
      make_numbers(context_, std::uint64_t{manifold_blocks.width} * count, "manifold_moved");
  pieces_.push_back(std::move(piece));
}

const LoadedKernel& DeviceManifolds::kernel_of(const CommandList& list, LoadedKernel& kernel,
                                               const char* name, const ir::Program& program) {
  if (!kernel && list.declared() != nullptr) {
    codegen::KernelRequest request;
    request.name = name;
    request.program = program;
    request.layout = codegen::general_layout(program.leaves);
    kernel = load_kernel(context_, std::move(request));
  }
  if (!kernel)
    throw Error(ErrorCode::Internal,
                "kernel \"" + std::string(name) + "\" is recorded, but was not declared");
  return kernel;
}

void DeviceManifolds::run(CommandList& list, const Piece& piece, const LoadedKernel& kernel,
                          const Buffer& x, const Buffer& delta, const Buffer& out) {
  BindingTable table;
  table.set(BufferRole::x, x);
  table.set(BufferRole::direction, delta);
  table.set(BufferRole::index_columns, piece.index);
  table.set(BufferRole::results, out);
  dispatch_all(context_, list, kernel, table, {.stride = piece.count, .out_stride = piece.count},
               piece.count);
}

void DeviceManifolds::record_bases(CommandList& list, const Buffer& x) {
  for (Piece& piece : pieces_) {
    const LoadedKernel& kernel =
        kernel_of(list, piece.basis_kernel, "manifold_basis", piece.manifold_blocks->basis);
    run(list, piece, kernel, x, x, piece.basis);
  }
}

void DeviceManifolds::record_contract(CommandList& list, const Buffer& v) {
  for (const Piece& piece : pieces_) {
    vectors_.record(list,
                    kernel::contract{{.result = v, .bases = piece.basis, .places = piece.firsts},
                                     {.count = piece.count}},
                    {.width = piece.manifold_blocks->width});
  }
}

void DeviceManifolds::record_expand(CommandList& list, const Buffer& from, const Buffer& to) {
  for (const Piece& piece : pieces_) {
    vectors_.record(
        list,
        kernel::expand{
            {.tangents = from, .bases = piece.basis, .result = to, .places = piece.firsts},
            {.count = piece.count}},
        {.width = piece.manifold_blocks->width});
  }
}

void DeviceManifolds::record_contract_packed(CommandList& list, const Buffer& packed) {
  for (const Piece& piece : pieces_) {
    vectors_.record(list,
                    kernel::contract_packed{
                        {.blocks = packed, .bases = piece.basis, .places = piece.packed_starts},
                        {.count = piece.count}},
                    {.width = piece.manifold_blocks->width});
  }
}

std::vector<DeviceManifolds::Basis> DeviceManifolds::bases_of(const BlockNumbers& numbers) const {
  std::vector<Basis> out(numbers.count());
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const auto blocks = std::span(pieces_[p].manifold_blocks->blocks);
    for (std::uint32_t b = 0; b < pieces_[p].count; ++b)
      out[numbers.at(blocks[pieces_[p].first + b])] = {p, b};
  }
  return out;
}

std::vector<DeviceManifolds::MatrixVectors::Group> DeviceManifolds::groups_of(
    const VectorLists& lists) const {
  std::vector<MatrixVectors::Group> out;
  const std::size_t most = std::max<std::uint64_t>(context_.max_range() / 16, 1) * 4;  // words
  for (const auto& [key, words] : lists) {
    for (std::size_t first = 0; first < words.size(); first += most) {
      const auto part = std::span(words).subspan(first, std::min(most, words.size() - first));
      out.push_back({.piece = key[0],
                     .vectors = static_cast<std::uint32_t>(key[1]),
                     .items = static_cast<std::uint32_t>(part.size() / 4),
                     .words = make_buffer(context_, part, "matrix_vectors")});
    }
  }
  return out;
}

DeviceManifolds::MatrixVectors DeviceManifolds::vectors_of(
    const BlockRows& matrix, std::span<const ParameterArray> arrays) const {
  const BlockNumbers numbers(arrays);
  const std::vector<Basis> bases = bases_of(numbers);
  VectorLists rows, columns;
  const auto add = [](VectorLists& lists, const Basis& basis, std::uint32_t vectors,
                      const std::array<std::uint32_t, 3>& location) {
    if (basis.piece == Basis::kNone) return;
    std::vector<std::uint32_t>& list = lists[{basis.piece, vectors}];
    list.insert(list.end(), {location[0], location[1], location[2], basis.number});
  };
  for (std::uint32_t block = 0; block < bases.size(); ++block) {
    const BlockRows::Row row = matrix.row(block);
    const auto scalars = matrix.columns_of(block);
    const std::uint32_t own = arrays[numbers.array_of_scalar(scalars[row.diagonal])].width;
    for (std::uint32_t at = 0, width = 0; at < row.length; at += width) {
      const std::size_t array = numbers.array_of_scalar(scalars[at]);
      width = arrays[array].width;
      if (at == row.diagonal) continue;
      const std::uint32_t location = row.values + at;
      add(rows, bases[block], width, {location, row.length, 1});
      add(columns, bases[numbers.of(array, scalars[at])], own, {location, 1, row.length});
    }
  }
  return {.rows = groups_of(rows), .columns = groups_of(columns)};
}

void DeviceManifolds::record_contract_matrix(CommandList& list, const MatrixVectors& vectors,
                                             const Buffer& matrix) const {
  for (const auto* side : {&vectors.rows, &vectors.columns}) {
    list.barrier();
    for (const MatrixVectors::Group& group : *side) {
      const Piece& piece = pieces_[group.piece];
      vectors_.record(
          list,
          kernel::contract_matrix{{.matrix = matrix, .bases = piece.basis, .places = group.words},
                                  {.count = group.items * group.vectors,
                                   .vectors = group.vectors,
                                   .blocks = piece.count}},
          {.width = piece.manifold_blocks->width});
    }
  }
}

void DeviceManifolds::record_plus(CommandList& list, const Buffer& x, const Buffer& delta,
                                  const Buffer& out, Scalar a, Scalar b) {
  for (Piece& piece : pieces_) {
    const LoadedKernel& kernel =
        kernel_of(list, piece.plus_kernel, "manifold_plus", piece.manifold_blocks->plus);
    run(list, piece, kernel, x, delta, piece.moved);
  }
  list.barrier();
  for (const Piece& piece : pieces_) {
    vectors_.record(
        list,
        kernel::scatter_rows{
            {.columns = piece.moved, .vector = x, .result = out, .places = piece.firsts},
            {.count = piece.count, .columns_factor = a, .vector_factor = b}},
        {.width = piece.manifold_blocks->width});
  }
}

void PointMoves::build() {
  manifolds_ = nullptr;
  for (Buffer* buffer : {&lower_, &upper_, &ambient_, &off_tangent_}) *buffer = Buffer();
  if (bounded()) make_bounds();
  if (on_manifolds()) make_manifolds();
}

void PointMoves::make_bounds() {
  lower_ = make_numbers(context_, problem_.model().scalars, "lower_bounds");
  upper_ = make_numbers(context_, problem_.model().scalars, "upper_bounds");
  const std::vector<std::uint32_t> none(problem_.model().scalars, 0);
  v_.held = make_buffer(context_, none, "held");
  write_bounds();
}

void PointMoves::make_manifolds() {
  std::vector<std::uint32_t> held(problem_.model().constant.begin(),
                                  problem_.model().constant.end());
  held.resize(problem_.model().scalars, 0);
  for (const ManifoldBlocks& manifold_blocks : problem_.model().manifolds->all) {
    for (const std::uint32_t first : manifold_blocks.blocks) {
      for (std::uint32_t k = manifold_blocks.tangent; k < manifold_blocks.width; ++k)
        held[first + k] = 1;
    }
  }
  off_tangent_ = make_buffer(context_, held, "off_tangent");
  v_.held = make_buffer(context_, held, "held");
  ambient_ = make_numbers(context_, problem_.model().scalars, "ambient_direction");
  const auto packed_start = [this](std::uint32_t first) {
    const auto after = std::ranges::upper_bound(v_.array_blocks, first, {}, &BlockRange::x_first);
    const BlockRange& range = *std::prev(after);
    const std::uint32_t packed = range.width * (range.width + 1) / 2;
    return range.blocks_first + (first - range.x_first) / range.width * packed;
  };
  manifolds_ = std::make_unique<DeviceManifolds>(context_, *v_.ops, *problem_.model().manifolds,
                                                 packed_start, v_.packed_blocks);
}

/// In f32 they are rounded to the nearest, as x is, so that x is on its bound where it was.
void PointMoves::write_bounds() {
  write_numbers(context_, lower_, problem_.model().lower);
  write_numbers(context_, upper_, problem_.model().upper);
}

void PointMoves::record_norms(CommandList& list) {
  if (on_manifolds()) {
    record_gradient_moves(list);
    list.barrier();
  }
  const Buffer& gradient = on_manifolds() ? v_.result : v_.gradient;
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  const std::uint32_t groups = v_.ops->workgroups(n);
  if (bounded()) {
    record_bounded_norms(list, gradient, v_.fixed);
  } else {
    v_.ops->record(list,
                   kernel::point_norms{{.gradient = gradient,
                                        .point = v_.x,
                                        .fixed_scalars = on_manifolds() ? v_.fixed : v_.not_free(),
                                        .partials = v_.partials},
                                       {.count = n, .out_stride = groups}});
  }
  list.barrier();
  v_.ops->sum(list, v_.partials, 0, groups, groups, Scalar::gradient_squared, 2);
  v_.ops->sum(list, v_.partials, 2 * groups, groups, groups, Scalar::gradient_max, 1, true);
  if (!bounded() || !on_manifolds()) return;
  list.barrier();  // these sums are nobody's
  record_bounded_norms(list, v_.gradient, off_tangent_);
}

void PointMoves::record_bounded_norms(CommandList& list, const Buffer& gradient,
                                      const Buffer& fixed) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list, kernel::bounded_norms{{.gradient = gradient,
                                              .point = v_.x,
                                              .lower_bounds = lower_,
                                              .upper_bounds = upper_,
                                              .fixed_scalars = fixed,
                                              .held_scalars = v_.held,
                                              .partials = v_.partials},
                                             {.count = n, .out_stride = v_.ops->workgroups(n)}});
}

void PointMoves::record_scaled_norms(CommandList& list) {
  const std::uint32_t groups = v_.block_groups();
  list.barrier();
  v_.record_by_blocks(list, kernel::scaled_norms{{.gradient = v_.gradient,
                                                  .point = v_.x,
                                                  .delta = v_.step,
                                                  .scale = v_.scale,
                                                  .fixed_scalars = v_.not_free(),
                                                  .partials = v_.partials},
                                                 {.out_stride = groups}});
  list.barrier();
  v_.ops->sum(list, v_.partials, 0, groups, groups, Scalar::scaled_gradient_squared, 3);
  v_.ops->sum(list, v_.partials, 3 * groups, groups, groups, Scalar::scaled_gradient_max, 1, true);
}

void PointMoves::record(CommandList& list, Scalar length) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  if (on_manifolds()) return record_move_on_manifolds(list, length);
  if (!bounded() && length != Scalar::one) {
    v_.ops->record(list,
                   kernel::combine{{.x = v_.x, .y = v_.step, .result = v_.trial},
                                   {.count = n, .x_factor = Scalar::one, .y_factor = length}});
    list.barrier();
    return;
  }
  const std::uint32_t groups = v_.ops->workgroups(n);
  const std::uint32_t first =
      2 * (v_.block_groups() + v_.most_sums);  // conjugate gradients may go on from theirs
  if (bounded()) {
    record_bounded_trial(list, v_.x, first, length);
  } else {
    record_trial(list, first);
  }
  list.barrier();
  v_.ops->sum(list, v_.partials, first, groups, groups, Scalar::model_decrease, 3);
}

void PointMoves::record_trial(CommandList& list, std::uint32_t first) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list, kernel::trial_point{
                           {.point = v_.x,
                            .delta = v_.step,
                            .residual = v_.residual,
                            .damping = v_.damping,
                            .gradient = v_.gradient,
                            .result = v_.trial,
                            .partials = v_.partials},
                           {.count = n, .out_first = first, .out_stride = v_.ops->workgroups(n)}});
}

void PointMoves::record_bounded_trial(CommandList& list, const Buffer& point, std::uint32_t first,
                                      Scalar length) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  kernel::bounded_trial trial = v_.bounded_trial(n, lower_, upper_, length);
  trial.buffers.point = point;
  trial.push.out_first = first;
  v_.ops->record(list, trial);
}

void PointMoves::record_tangents(CommandList& list) {
  if (!on_manifolds()) return;
  manifolds_->record_bases(list, v_.x);
  list.barrier();
  manifolds_->record_contract(list, v_.gradient);
  manifolds_->record_contract_packed(list, v_.packed);
  list.barrier();
}

void PointMoves::record_gradient_moves(CommandList& list) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list,
                 kernel::mask{{.result = v_.gradient, .fixed_scalars = v_.fixed}, {.count = n}});
  list.barrier();
  v_.ops->record(list, kernel::copy{{.source = v_.gradient, .result = v_.result}, {.count = n}});
  v_.ops->record(
      list, kernel::combine{{.x = v_.gradient, .y = v_.gradient, .result = v_.product},
                            {.count = n, .x_factor = Scalar::minus_one, .y_factor = Scalar::zero}});
  list.barrier();
  manifolds_->record_plus(list, v_.x, v_.product, v_.result, Scalar::minus_one, Scalar::one);
}

const Buffer& PointMoves::record_expanded(CommandList& list, const Buffer& direction) {
  if (!on_manifolds()) return direction;
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list, kernel::copy{{.source = direction, .result = ambient_}, {.count = n}});
  list.barrier();
  manifolds_->record_expand(list, direction, ambient_);
  list.barrier();
  return ambient_;
}

void PointMoves::record_into_box(CommandList& list, std::uint32_t first) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  const std::uint32_t groups = v_.ops->workgroups(n);
  list.barrier();
  v_.ops->record(list, kernel::copy{{.source = v_.trial, .result = v_.product}, {.count = n}});
  list.barrier();
  record_bounded_trial(list, v_.product, first, Scalar::zero);
  list.barrier();
  v_.ops->sum(list, v_.partials, first, groups, groups, Scalar::model_decrease, 3);
}

void PointMoves::record_move_on_manifolds(CommandList& list, Scalar length) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  const std::uint32_t groups = v_.ops->workgroups(n);
  const std::uint32_t first = 2 * v_.block_groups();  // conjugate gradients may go on from theirs
  const bool whole = length == Scalar::one;
  const auto combine = [&](const Buffer& a, const Buffer& b, const Buffer& out, Scalar in_a,
                           Scalar in_b) {
    v_.ops->record(list, kernel::combine{{.x = a, .y = b, .result = out},
                                         {.count = n, .x_factor = in_a, .y_factor = in_b}});
    list.barrier();
  };
  if (whole && !bounded()) {
    record_trial(list, first);
    list.barrier();
  } else {
    combine(v_.step, v_.step, v_.product, length, Scalar::zero);
    combine(v_.x, v_.product, v_.trial, Scalar::one, Scalar::one);
  }
  manifolds_->record_plus(list, v_.x, whole ? v_.step : v_.product, v_.trial);
  if (bounded()) record_into_box(list, first);
  list.barrier();
  combine(v_.trial, v_.x, v_.result, Scalar::one, Scalar::minus_one);
  v_.ops->record(
      list,
      kernel::dot{
          {.x = v_.result, .y = v_.result, .fixed_scalars = v_.fixed, .partials = v_.partials},
          {.count = n, .out_first = first + 3 * groups}});
  list.barrier();
  if (whole && !bounded()) {
    v_.ops->sum(list, v_.partials, first, groups, groups, Scalar::model_decrease, 1);
    v_.ops->sum(list, v_.partials, first + 2 * groups, groups, groups, Scalar::slope, 1);
  }
  v_.ops->sum(list, v_.partials, first + 3 * groups, groups, groups, Scalar::step_squared, 1);
}

DeviceManifolds::MatrixVectors PointMoves::matrix_vectors(const BlockRows& matrix) const {
  if (!on_manifolds()) return {};
  return manifolds_->vectors_of(matrix, problem_.model().arrays);
}

void PointMoves::record_matrix_contracted(CommandList& list,
                                          const DeviceManifolds::MatrixVectors& vectors,
                                          const Buffer& matrix) const {
  if (on_manifolds()) manifolds_->record_contract_matrix(list, vectors, matrix);
}

void PointMoves::record_contracted(CommandList& list, const Buffer& vector) {
  if (!on_manifolds()) return;
  manifolds_->record_contract(list, vector);
  list.barrier();
}

void AcceptedPoints::prepare() {
  if (lists_->accept.list) return;
  const std::uint64_t bytes = problem_.model().scalars * context_.element_bytes();
  lists_->accept =
      recorder_.make_list("accept", [&](CommandList& l) { l.copy(v_.trial, 0, v_.x, 0, bytes); });
  for (std::size_t k = 0; k < staged_->points.size(); ++k) {
    staged_->points[k] = context_.device->buffer(bytes, MemoryKind::Upload, "staged_point");
    lists_->accept_and_stage[k] = recorder_.make_list("accept_and_stage", [&](CommandList& l) {
      l.copy(v_.trial, 0, v_.x, 0, bytes);
      l.copy(v_.trial, 0, staged_->points[k], 0, bytes);
    });
  }
}

const Recorded& AcceptedPoints::accepting() {
  ++staged_->accepted;
  return staged_->due() ? lists_->accept_and_stage[staged_->begin()] : lists_->accept;
}

bool AcceptedPoints::last_known_point(std::span<double> x) { return staged_->read(problem_, x); }

const AcceptedPoints::Scalars& AcceptedPoints::read_scalars() {
  const auto& values = v_.ops->read(recorder_.last());
  staged_->arrive();  // the read-back was queued behind it
  return values;
}

}  // namespace topograd::runtime::vulkan
