// Preconditioners of the CPU engine's steps, rebuilt before every step.
#pragma once

#include "../../../codegen/precision.hpp"
#include "../../../ir/machine/state_record.hpp"
#include "../../engine/engine.hpp"
#include "../../linear/choices.hpp"
#include "../../linear/coarse_plan.hpp"
#include "../../model/model.hpp"
#include "../factor/sparse_factor.hpp"
#include "../terms/term_costs.hpp"
#include "../terms/term_index.hpp"
#include "../tiles/column.hpp"
#include "../tiles/pool.hpp"
#include "conjugate_gradients.hpp"

#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

using codegen::Bits;

/// Products with the matrix of a coarse space, where something else than the host makes them.
class CoarseProducts {
 public:
  virtual ~CoarseProducts() = default;
  ///   vectors  by vector, then by entry; `version` is another one when they have changed
  virtual void set(const CoarsePlan& plan, std::span<const double> vectors,
                   std::uint64_t version) = 0;
  /// Returns Pᵀ A P y, with the bits that the host's sums have.
  virtual std::span<const double> multiply(std::span<const double> y) = 0;
};

/// The damped system of one step, A = JᵀJ + damping.
template <class T>
struct StepSystem {
  const BlockLayout& layout;
  const SumRanges& sums;                ///< ranges of the first part of M⁻¹
  const T* x;                           ///< the point
  const T* blocks;                      ///< diagonal blocks of JᵀJ, packed as the layout says
  const T* damping;                     ///< by scalar of x
  std::span<const std::uint8_t> fixed;  ///< by scalar of x, or empty: 1 = fixed
  LinearOperator<T>& matrix;            ///< A
  CoarseProducts* coarse = nullptr;     ///< null: by products with A
};

template <class T>
class TwoLevel;

template <class T>
class StepPreconditioner : public HostPreconditioner<T> {
 public:
  /// Called when the model may have changed; it outlives the preconditioner.
  virtual void follow(const Model& /*model*/) {}
  /// Marks the start of another solve.
  virtual void begin_solve() {}
  /// As DampedSteps::transfer().
  virtual void transfer(Pool& /*pool*/, ir::StateRecord& /*record*/) {}
  /// Builds M⁻¹ for the next step. The data of `system` live until the next build().
  virtual void build(Pool& pool, const StepSystem<T>& system) = 0;
  /// Called after conjugate gradients with it. Returns true if build() may make another one with
  /// which the same system is to be solved again: is_norm() is then true.
  virtual bool solved(int /*iterations*/) { return false; }
  /// True if M is so different from the diagonal that its norm is a better stopping test than ‖r‖.
  virtual bool is_norm() const { return false; }
  /// Packed inverses of the diagonal blocks, the first part of M⁻¹.
  virtual std::span<const T> inverse_blocks() const = 0;
  /// A coarse space, the second part of M⁻¹; null: there is none.
  struct CoarsePart {
    const CoarsePlan* plan = nullptr;
    TwoLevel<T>* space = nullptr;
  };
  virtual CoarsePart coarse() { return {}; }
  /// Use since begin_solve().
  virtual PreconditionerUse use() const = 0;
  virtual std::vector<MemoryUse> memory() const = 0;
};

/// Makes the preconditioner: make_NAME<T>(asked, bits) of its row in preconditioners.def. Throws
/// Error{Unsupported} if it exists on devices alone.
template <class T>
std::unique_ptr<StepPreconditioner<T>> make_preconditioner(Preconditioner asked, Bits bits);

/// Fixed scalars have the rows and columns of the identity. Blocks that are not positive definite,
/// and those wider than kWidestDenseBlock, are inverted by their diagonal alone; a diagonal entry
/// that is not positive counts as 1.
template <class T>
class BlockJacobi final : public StepPreconditioner<T> {
 public:
  using typename HostPreconditioner<T>::Range;

  std::size_t ranges() const override;
  Range range(std::size_t k) const override;
  void apply(std::size_t k, const T* r, T* z) const override;

  void build(Pool& pool, const StepSystem<T>& system) override;
  std::span<const T> inverse_blocks() const override { return inverse_; }
  PreconditionerUse use() const override {
    return {.asked_for = true, .why = {PreconditionerReason::asked_for}};
  }
  std::vector<MemoryUse> memory() const override;

 private:
  const BlockLayout* layout_ = nullptr;
  const SumRanges* sums_ = nullptr;
  Column<T> inverse_;
};

/// P (Pᵀ A P)⁻¹ Pᵀ for the vectors P of a plan. The sum with D⁻¹ is symmetric and positive definite
/// for any A. Sums have a fixed order.
template <class T>
class TwoLevel {
 public:
  struct System {
    const T* x = nullptr;                 ///< the point
    std::uint64_t scalars = 0;            ///< of x
    LinearOperator<T>& matrix;            ///< A, damped
    const HostPreconditioner<T>& blocks;  ///< D
    CoarseProducts* coarse = nullptr;     ///< null: by products with A
  };

  explicit TwoLevel(Bits bits = Bits::native) : factor_(front_kernels(bits)) {}

  /// Makes vectors and matrix, and factorises it. Returns false if it is not positive definite.
  ///
  /// Cost: plan.products() products with A, and a Cholesky factorisation.
  bool build(Pool& pool, const CoarsePlan& plan, const System& system);

  /// Saves or restores vectors and matrix.
  void transfer(Pool& pool, ir::StateRecord& record, const CoarsePlan& plan);

  /// Solves Pᵀ A P y = b; returns b · y.
  double solve(std::span<const double> b);
  /// y of the last solve().
  std::span<const double> solution() const { return solution_; }
  /// z += P (Pᵀ A P)⁻¹ Pᵀ r; returns r · the added part.
  double add(Pool& pool, const CoarsePlan& plan, const T* r, T* z);

  /// Another one whenever vectors() are others.
  std::uint64_t version() const { return version_; }
  /// P by vector and entry, and the lower triangle of Pᵀ A P, for tests.
  std::span<const T> vectors() const { return vectors_; }
  const Eigen::MatrixXd& matrix() const { return matrix_; }

  std::uint64_t bytes() const;

 private:
  void fill_vectors(Pool& pool, const CoarsePlan& plan, const System& system);
  void add_answers(Pool& pool, const CoarsePlan& plan, const System& system);
  void fill_matrix(Pool& pool, const CoarsePlan& plan, const System& system);
  void put_columns(const CoarsePlan& plan, std::uint32_t colour, std::uint32_t f,
                   std::span<const double> product);
  bool factorise(Pool& pool);
  /// p = Σ_f y[g * functions + f] · vector f of g on all entries.
  void expand(Pool& pool, const CoarsePlan& plan, const double* y, T* p) const;
  /// Pᵀ A P y.
  std::span<const double> product(Pool& pool, const CoarsePlan& plan, const System& system,
                                  std::span<const double> y);
  /// Pᵀ r, and that of one aggregate.
  std::span<const double> restricted(Pool& pool, const CoarsePlan& plan, const T* r);
  void restrict_to(const CoarsePlan& plan, std::size_t aggregate, const T* r, double* out) const;

  std::uint64_t version_ = 0;
  Column<T> vectors_, direction_, product_;
  Eigen::MatrixXd matrix_;
  DenseFactor factor_;
  std::vector<double> coarse_;  // Pᵀ r
  std::span<const double> solution_;
};

}  // namespace topograd::runtime::cpu
