// Moves of a point to its trial point, within bounds and on manifolds; accepted trial points.
#pragma once

#include "../../engine/damped_steps.hpp"
#include "../../linear/block_rows.hpp"
#include "../../model/model.hpp"
#include "../recording/vector_ops.hpp"
#include "../terms/device_terms.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// Every record_ function leaves its results behind the caller's next barrier.
class DeviceManifolds {
 public:
  /// Offset of the packed diagonal block of a block, by its first scalar.
  using PackedStart = std::function<std::uint32_t(std::uint32_t first)>;
  /// Rows and columns of the blocks of a matrix off its diagonal that belong to blocks on
  /// manifolds, as lists of contract_matrix.
  struct MatrixVectors {
    struct Group {
      std::size_t piece = 0;
      std::uint32_t vectors = 0, items = 0;  ///< vectors of an item
      Buffer words;
    };
    std::vector<Group> rows, columns;
  };

  ///   manifolds  in the device's order; outlive this, as do context and vectors
  ///
  /// Throws Error{Unsupported} if packed diagonal blocks do not fit a storage buffer range.
  DeviceManifolds(Context& context, VectorOps& vectors, const Manifolds& manifolds,
                  const PackedStart& packed_start, std::uint64_t packed_size);

  /// Bases at x: what the functions below read.
  void record_bases(CommandList& list, const Buffer& x);
  /// v ← Pᵀ v on the blocks.
  void record_contract(CommandList& list, const Buffer& v);
  /// to ← P from on the blocks; the rest of `to` is left as it is.
  void record_expand(CommandList& list, const Buffer& from, const Buffer& to);
  /// H ← Pᵀ H P in the packed diagonal blocks.
  void record_contract_packed(CommandList& list, const Buffer& packed);
  /// Lists the vectors of a matrix by blocks of x.
  MatrixVectors vectors_of(const BlockRows& matrix, std::span<const ParameterArray> arrays) const;
  /// H ← Pᵀ H P in the blocks off the diagonal, with a barrier between.
  void record_contract_matrix(CommandList& list, const MatrixVectors& vectors,
                              const Buffer& matrix) const;
  /// out ← a (x ⊞ δ) + b x on the blocks, with factors from the scalar buffer; with barriers of its
  /// own.
  void record_plus(CommandList& list, const Buffer& x, const Buffer& delta, const Buffer& out,
                   codegen::Scalar a = codegen::Scalar::one,
                   codegen::Scalar b = codegen::Scalar::zero);

 private:
  /// As many blocks of one manifold as their bases fit a range.
  struct Piece {
    const ManifoldBlocks* manifold_blocks = nullptr;
    std::size_t first = 0;  // in their list
    std::uint32_t count = 0;
    LoadedKernel plus_kernel, basis_kernel;
    Buffer index, firsts, packed_starts, basis, moved;
  };
  /// The basis of a block: its number in a piece.
  struct Basis {
    static constexpr std::size_t kNone = ~std::size_t{0};
    std::size_t piece = kNone;
    std::uint32_t number = 0;
  };
  /// Words of contract_matrix, by piece and vectors of an item.
  using VectorLists = std::map<std::array<std::size_t, 2>, std::vector<std::uint32_t>>;

  void add(const ManifoldBlocks& manifold_blocks, std::size_t first, std::uint32_t count,
           const PackedStart& packed_start);
  std::vector<Basis> bases_of(const BlockNumbers& numbers) const;
  std::vector<MatrixVectors::Group> groups_of(const VectorLists& lists) const;
  /// The kernel of a program of a piece, made where a list declares it.
  const LoadedKernel& kernel_of(const CommandList& list, LoadedKernel& kernel, const char* name,
                                const ir::Program& program);
  void run(CommandList& list, const Piece& piece, const LoadedKernel& kernel, const Buffer& x,
           const Buffer& delta, const Buffer& out);

  Context& context_;
  VectorOps& vectors_;
  std::vector<Piece> pieces_;
};

/// On manifolds conjugate gradients run in tangent coordinates, kernels of residuals in those of x.
class PointMoves : Part {
 public:
  explicit PointMoves(const Part& part) : Part(part) {}

  /// For a model that has just been arranged, whose vectors are there.
  void build();
  /// Bounds of the model, which are others.
  void write_bounds();

  bool bounded() const { return !problem_.model().lower.empty(); }
  bool on_manifolds() const { return problem_.model().manifolds != nullptr; }
  /// True if some scalars that are not constant take no part in steps.
  bool has_bounds_or_manifolds() const { return bounded() || on_manifolds(); }

  /// Norms of x and of the gradient.
  void record_norms(CommandList& list);
  void record_scaled_norms(CommandList& list);
  /// Gradient and diagonal blocks in tangent coordinates.
  void record_tangents(CommandList& list);
  /// The direction in coordinates of x.
  const Buffer& record_expanded(CommandList& list, const Buffer& direction);
  /// A vector in coordinates of x comes back to tangent coordinates, with a barrier behind it.
  void record_contracted(CommandList& list, const Buffer& vector);
  /// Vectors of a matrix that record_matrix_contracted() changes; there are none without manifolds.
  DeviceManifolds::MatrixVectors matrix_vectors(const BlockRows& matrix) const;
  /// The blocks of a matrix off its diagonal come to tangent coordinates. Begins with a barrier of
  /// its own, ends with one to come.
  void record_matrix_contracted(CommandList& list, const DeviceManifolds::MatrixVectors& vectors,
                                const Buffer& matrix) const;
  /// trial = x + length δ, with its report.
  void record(CommandList& list, codegen::Scalar length);

 private:
  using Scalar = codegen::Scalar;

  void make_bounds();
  void make_manifolds();
  /// gradient = 0 where fixed; result = x less the point that −g leads to, bounds apart.
  void record_gradient_moves(CommandList& list);
  /// The same with bounds: also finds the scalars that they hold.
  void record_bounded_norms(CommandList& list, const Buffer& gradient, const Buffer& fixed);
  /// Partial sums go to indices from `first` on.
  void record_trial(CommandList& list, std::uint32_t first);
  void record_bounded_trial(CommandList& list, const Buffer& point, std::uint32_t first,
                            Scalar length);
  /// trial = its projection on the box, with the model's decrease and the slope.
  void record_into_box(CommandList& list, std::uint32_t first);
  void record_move_on_manifolds(CommandList& list, Scalar length);

  Buffer lower_, upper_;  // if there are bounds
  std::unique_ptr<DeviceManifolds> manifolds_;
  Buffer ambient_;      // a direction, on manifolds
  Buffer off_tangent_;  // u32 by scalar: fixed, or behind a block's tangent coordinates
};

struct StagedPoints {
  using Clock = std::chrono::steady_clock;

  std::array<Buffer, 2> points;
  int written = -1;                      ///< queued behind the last accept
  int arrived = -1;                      ///< known to be complete
  std::uint64_t accepted = 0;            ///< steps since the point was set
  std::array<std::uint64_t, 2> steps{};  ///< accepted steps up to each copy
  Clock::time_point last;

  /// Points up to this size are staged at every accepted step, larger ones once in the interval.
  static constexpr std::uint64_t kEveryStep = std::uint64_t{1} << 20;
  static constexpr std::chrono::seconds kInterval{1};

  bool due() const {
    return points[0].size() <= kEveryStep || written < 0 || Clock::now() - last >= kInterval;
  }
  /// The slot of a copy that is queued now, of the point after `accepted` steps.
  std::size_t begin() {
    written = arrived == 0 ? 1 : 0;
    last = Clock::now();
    const auto slot = static_cast<std::size_t>(written);
    steps[slot] = accepted;
    return slot;
  }
  /// A step was accepted that was queued before the host knew, with a copy behind it or without.
  void took(bool staged) {
    ++accepted;
    if (staged) steps[static_cast<std::size_t>(written)] = accepted;
  }
  /// The queued copy has arrived.
  void arrive() { arrived = written; }
  /// Copies of points before the next one are not of its solve.
  void forget() {
    written = arrived = -1;
    accepted = 0;
  }
  /// The last one that is complete. False, and x untouched, if there is none.
  bool read(const DeviceModel& model, std::span<double> x) const {
    if (arrived < 0) return false;
    model.read_staged(points[static_cast<std::size_t>(arrived)], x);
    return true;
  }
  std::uint64_t steps_since_arrived() const {
    return arrived < 0 ? accepted : accepted - steps[static_cast<std::size_t>(arrived)];
  }
};

class AcceptedPoints final : public KnownPoint, Part {
 public:
  using Scalars = std::array<double, codegen::kScalarCount>;

  explicit AcceptedPoints(const Part& part) : Part(part) {}

  /// The point is x from here on.
  void set(std::span<const double> x) {
    problem_.write(v_.x, x);
    known_->reset();
  }
  /// Report of a point that the device moved to itself, until it is taken.
  std::optional<PointReport>& known() { return *known_; }

  /// Makes lists and host memory, once.
  void prepare();
  /// The list that accepts the trial point, and stages it where that is due; to be submitted next.
  const Recorded& accepting();
  /// All scalars after the last submission, which ended with their read-back. Copies that were
  /// queued before have arrived then.
  const Scalars& read_scalars();

  StagedPoints& staged() { return *staged_; }
  bool last_known_point(std::span<double> x) override;
  std::uint64_t steps_after_known_point() const override { return staged_->steps_since_arrived(); }

 private:
  struct Lists {
    Recorded accept;
    std::array<Recorded, 2> accept_and_stage;
  };

  Derived<StagedPoints> staged_{recorder_.columns};
  Derived<Lists> lists_{recorder_.columns};
  Derived<std::optional<PointReport>> known_{recorder_.kernels};
};

}  // namespace topograd::runtime::vulkan
