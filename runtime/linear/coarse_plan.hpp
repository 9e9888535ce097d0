// The coarse space of a two-level preconditioner: aggregates, their vectors, and when it is made.
#pragma once

#include "../../ir/machine/state_record.hpp"
#include "../model/model.hpp"
#include "choices.hpp"

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace topograd::runtime {

inline constexpr std::uint32_t kNoAggregate = ~0u;

/// Groups of neighbouring blocks, found from the index columns alone.
struct Aggregates {
  /// By array: true if its blocks never share a residual and each of them belongs to neighbours in
  /// other arrays (the rotation of a vertex): they follow these.
  std::vector<std::uint8_t> follows;
  /// By block, arrays one after the other; kNoAggregate for blocks that very many residuals share,
  /// and for small components.
  std::vector<std::uint32_t> of_block;
  std::uint32_t count = 0;
  /// Pairs (a, b), a < b, of aggregates that share a residual; sorted.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
};

/// Least number of blocks of an aggregate, and of a component that gets one.
inline constexpr std::uint32_t kSmallestAggregate = 8;

using MostAggregates = std::function<std::uint32_t(std::span<const std::uint8_t> follows)>;

/// Finds balls around seeds that are further apart than a radius, the smallest that gives at most
/// `most` of them; none if there are too many components.
///
/// Depends on the index columns of residual terms alone; energies connect nothing. Cost: linear in
/// instances, times the logarithm of the radius.
///
///   most  largest number, given Aggregates::follows
Aggregates find_aggregates(const Model& model, const MostAggregates& most);

/// Largest number of coarse unknowns: the inverse of their matrix is dense.
inline constexpr std::uint32_t kMostCoarse = 1024;
/// Largest number of vectors on one aggregate.
inline constexpr std::uint32_t kMostFunctions = 16;
/// Largest number of products with JᵀJ that may be spent on the coarse matrix.
inline constexpr std::uint32_t kMostProbes = 600;

/// Vectors on each aggregate, and colours of aggregates whose vectors can be multiplied together.
///
/// Vector f of aggregate g is 0 elsewhere. On leading arrays it is 1 on one coordinate of an array,
/// or, for arrays of width 2 and 3, the field of a rotation about the aggregate's centre at the
/// current x. On following arrays it is their response −D⁻¹ (JᵀJ v) to the vector on the leading
/// ones, with the damped diagonal blocks D. These vectors span the motions that bend nothing.
///
/// An entry is a scalar of x that belongs to an aggregate. Entry e of vector f is number f *
/// entries + e; vector f of aggregate g is coarse unknown g * functions + f.
struct CoarsePlan {
  std::uint32_t functions = 0, aggregates = 0;
  Why<PreconditionerReason> why;  ///< coarse_space, or why aggregates is 0

  std::vector<std::uint8_t> arrays_follow;  ///< by array of the model: 1 if its scalars follow
  std::vector<std::uint32_t> starts;        ///< aggregates + 1: first entry of each
  std::vector<std::uint32_t> scalars;       ///< by entry, ascending in an aggregate
  std::vector<std::uint32_t> homes;         ///< by entry: its aggregate
  std::vector<std::uint8_t> follows;        ///< by entry: 1 in a following array
  bool answers = false;                     ///< true if any entry follows

  /// On leading entries a vector is offset ± x[from].
  static constexpr std::uint32_t kNowhere = ~0u, kMinus = 1u << 31;
  std::vector<std::uint32_t> from;  ///< scalar, with kMinus; kNowhere: the offset alone
  std::vector<double> offsets;

  /// Vector f over all aggregates together, with one centre for all rotations, is Σ spread[(f *
  /// aggregates + g) * functions + h] · vector h of g. The response of following entries to vector
  /// h of g is Σ_f gather[(f * aggregates + g) * functions + h] · response to vector f.
  std::vector<double> spread, gather;

  /// Aggregates of one colour have no common neighbour: their vectors are multiplied together.
  std::uint32_t colours = 0;
  std::vector<std::uint32_t> colour;  ///< by aggregate
  /// [colour * aggregates + g]: g or its neighbour of that colour, or kNoAggregate
  std::vector<std::uint32_t> sources;

  std::uint32_t entries() const { return static_cast<std::uint32_t>(scalars.size()); }
  std::uint32_t unknowns() const { return functions * aggregates; }
  /// Number of products with JᵀJ for vectors and matrix.
  std::uint32_t products() const { return functions * (colours + (answers ? 1 : 0)); }
};

/// Plans the coarse space of a problem; rotation centres come from x.
///
/// Depends on index columns, fixed flags and x alone. Cost: that of find_aggregates().
///
///   x  (scalars)  in the model's order
CoarsePlan plan_coarse_space(const Model& model, std::span<const double> x);

/// Centres a plan with aggregates at x, as plan_coarse_space() would: sets offsets, spread and
/// gather. Cost: linear in entries.
void centre_coarse_space(const Model& model, std::span<const double> x, CoarsePlan& plan);

/// Decides when a coarse space is made, plans it once for a model, and centres it in each solve.
///
/// It is made again after as many iterations as its construction took products, so that at most
/// half of all products are spent on it. For `automatic`, a slow inversion of its matrix counts as
/// products too, and a trial comes first: a system that block-Jacobi has solved is solved once more
/// with the coarse space. Unless this takes a third fewer iterations, block-Jacobi goes on, and the
/// next trial waits 16 times as long as it costs itself, with its iterations. Depends
/// on counts alone. Source for `automatic`: the break-even rule for renting and buying (Karlin et
/// al., Competitive snoopy caching, Algorithmica 3, 1988).
class CoarseControl {
 public:
  ///   slow_inverse  multiply-adds of the inversion that take as long as a product with JᵀJ; 0: the
  ///                 inversion costs nothing
  explicit CoarseControl(Preconditioner asked = Preconditioner::block_jacobi,
                         std::uint64_t slow_inverse = 0)
      : asked_(asked), slow_inverse_(slow_inverse) {
    begin_solve();
  }

  /// Marks the start of another solve.
  void begin_solve();
  /// Call after terms, instances or fixed flags have changed.
  void model_changed();
  /// True if the coarse space should be made now, before a step. Plans it on first use.
  ///
  ///   x  gives the current point, in the model's order
  bool due(const Model& model, const std::function<std::vector<double>()>& x);
  /// Reports the iterations so far of a running solve. If the next step is then likely to need the
  /// coarse space, planning starts on another thread; call settle() before the model may change.
  void expect(const Model& model, int iterations);
  /// Waits for the work that expect() started.
  void settle();
  void built();
  /// Reports that it could not be made: block-Jacobi is used until it is due again.
  void failed(PreconditionerReason why);
  /// Saves or restores counts and decisions; a restored control has planned the coarse space again,
  /// with its centres.
  void transfer(ir::StateRecord& record, const Model& model);
  /// Call after conjugate gradients. Returns true if a trial may be due: if due() then says so, the
  /// coarse space is to be made, and the same system to be solved again.
  bool solved(int iterations);

  bool in_use() const { return in_use_; }
  const CoarsePlan& plan() const { return plan_; }
  /// Versions of the plan and of its centres, to compare with those of derived data.
  std::uint64_t plan_version() const { return plans_; }
  std::uint64_t centre_version() const { return centres_; }
  PreconditionerUse use() const;

 private:
  /// A model with bounds or manifolds has none, and its point need not be read.
  static bool possible(const Model& model) { return model.lower.empty() && !model.manifolds; }
  bool known() const { return planned_ && plan_.aggregates > 0; }
  /// Cost of making it, in products with JᵀJ.
  std::uint64_t cost() const;
  /// Iterations after which it is due, once it is planned.
  std::uint64_t wait() const;

  Preconditioner asked_;
  std::uint64_t slow_inverse_;
  CoarsePlan plan_;
  std::future<CoarsePlan> planning_;
  std::optional<PreconditionerReason> failure_;
  std::uint64_t plans_ = 0, centres_ = 0, iterations_ = 0, products_ = 0;
  int builds_ = 0;
  bool planned_ = false, centred_ = false, in_use_ = false, fresh_ = true;
  enum class Trial { waits, is_due, runs, passed };
  Trial trial_ = Trial::waits;
  std::uint64_t without_ = 0;             ///< iterations of the last system without it
  std::uint64_t with_ = 0, against_ = 0;  ///< those of the last trial, with it and without
  /// Iterations before the next trial, over those that it costs; 0 if none has failed.
  std::uint64_t patience_ = 0;
};

}  // namespace topograd::runtime
