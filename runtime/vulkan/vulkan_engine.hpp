// The Vulkan engine: terms, vectors and recorded command lists of one problem.
#pragma once

#include "../engine/elimination.hpp"
#include "../engine/first_order.hpp"
#include "../engine/narrow_solve.hpp"
#include "../engine/step_gradient.hpp"
#include "../rows/rows.hpp"
#include "begun_evaluations.hpp"
#include "engine.hpp"
#include "kernel_variants.hpp"
#include "linear/normal_products.hpp"
#include "linear/solve_state.hpp"
#include "recording/recorder.hpp"
#include "recording/step_vectors.hpp"
#include "steps/device_gradient_steps.hpp"
#include "steps/pace.hpp"
#include "steps/point_moves.hpp"
#include "terms/term_hessians.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {

class VulkanEngine final : public Engine,
                           public DampedSteps,
                           public StepLengths,
                           public LinearSystem,
                           public SecondDerivatives,
                           public SeveralValues,
                           public Guards,
                           public KernelsAhead,
                           public Plans,
                           public Measurements,
                           public StepGradient,
                           public NarrowSolve,
                           public Elimination {
 public:
  VulkanEngine(const Model& model, const EngineOptions& options);

  Abilities abilities() override {
    return {.steps = this,
            .step_lengths = this,
            .linear_system = this,
            .step_gradient = this,
            .narrow_solve = this,
            .elimination = this,
            .gradient_steps = &gradient_steps_,
            .second_derivatives = this,
            .several_values = this,
            .asynchronous = &begun_,
            .guards = this,
            .kernels_ahead = this,
            .known_point = &points_,
            .plans = this,
            .measurements = this};
  }
  Backend backend() const override { return Backend::vulkan; }
  std::string device() const override { return context_.device->info().name; }
  EngineStats stats() const override;
  std::string accumulation() const override { return sums_.accumulation(); }
  PlanRecord plan() const override;
  std::unique_ptr<RowRunner> row_runner() const override { return make_row_runner(options_); }
  bool prepare(KernelKind kind) override;
  bool prepare_step() override;
  void refresh(const Model& model) override;

  void set_point(std::span<const double> x) override;
  void begin_solve() override {
    scale_is_set_ = false;
    coarse_.control.begin_solve();
  }
  void point(std::span<double> x) override { problem_.read_point(v_.x, x); }
  double cost() override;
  void residuals(std::span<double> out) override;
  void gradient(std::span<double> out) override;
  void evaluate(const Values& wanted) override;
  void jacobian(std::size_t term, std::span<double> values) override {
    rows_.jacobian(term, values);
  }
  void jvp(std::span<const double> p, std::span<double> out) override;
  void vjp(std::span<const double> seeds, std::span<double> out) override { rows_.vjp(seeds, out); }
  void jtjp(std::span<const double> p, std::span<double> out) override;
  void hvp(std::span<const double> p, std::span<double> out) override;
  void hessian(std::size_t term, bool project, std::span<double> values) override {
    hessians_.read(term, project, values);
  }

  std::uint64_t failed_guards() override { return terms_.failed_guards(); }
  std::vector<std::uint32_t> failed_instances(std::size_t term, At at) override {
    return rows_.failed_instances(term, at);
  }
  double trial_cost() override;

  PointReport linearize() override;
  StepReport try_step(const StepRequest& request) override;
  StepReport try_step(std::span<const double> delta) override;
  EliminationUse eliminate(std::span<const std::uint8_t> scalars) override;
  PreconditionerUse preconditioner() const override { return coarse_.control.use(); }
  NormalMatrixUse normal_matrix() const override { return products_.use(); }
  void trial_point(std::span<double> x) override { problem_.read_point(v_.trial, x); }
  void set_gradient(std::span<const double> g) override { problem_.write(v_.gradient, g); }
  void step_gradient(std::span<double> g) override { problem_.read(v_.gradient, g); }
  void hold(std::span<const std::uint8_t> held) override { moves_.hold(held); }
  void last_step(std::span<double> delta) override { problem_.read(v_.step, delta); }
  StepReport rescale_step(double length) override;
  void accept() override;
  bool solve_by(NarrowSolve& narrow) override;
  VulkanEngine& engine() override { return *this; }

  Timing time(KernelKind kind, int warm_ups, int samples) override;
  Timing time_step(int iterations, double damping, int samples) override;
  double copy_rate() override;
  std::vector<MemoryUse> memory() const override;

 private:
  using Scalar = codegen::Scalar;
  using VectorOp = codegen::VectorOp;

  // engine.cpp: making and following a model
  void build();
  void rebuild();
  void evaluate_sum(Pass pass, std::span<double> out);

  // copy_rate.cpp
  double time_copies();

  // timing.cpp
  void record_kind(CommandList& list, KernelKind kind);

  // conjugate_gradients.cpp: solving for the step
  void record_solve_start(CommandList& list, bool preconditioned, bool coarse = false);
  void record_iterations(CommandList& list, int count, bool preconditioned, bool coarse = false);
  /// Partial sums of r·z, and of r·r.
  std::uint32_t sum_groups(bool coarse) const {
    return v_.block_groups() + (coarse ? coarse_.control.plan().unknowns() : 0);
  }
  void record_pending_step(CommandList& list);
  SolveLists solve_lists();
  /// Queues `lists` before it, and what comes of a step behind it, with `stepping`, whose point it
  /// is: this engine, or the one that it solves for.
  int iterate(int most, bool takes, VulkanEngine& stepping, std::vector<const Recorded*> lists);
  void queue_iterations(const Recorded& iterations, int want, int& queued,
                        std::vector<const Recorded*>& lists);
  /// These return the number of partial sums of the curvature.
  std::uint32_t record_direction_and_product(CommandList& list, const BindingTable& table,
                                             std::uint32_t sums);
  std::uint32_t record_fused_product(CommandList& list, const Buffer& old_direction,
                                     const Buffer& new_direction, const Buffer& preconditioned,
                                     std::uint32_t sums);

  // coarse.cpp: the two-level preconditioner
  /// Iterations of one recorded list, an even number; lists are submitted until the solver's state
  /// says that it is done.
  static constexpr int kIterationsOfList = 16;
  void write_sums(const Buffer& buffer, std::span<const double> values);
  bool coarse_fits(const CoarsePlan& plan) const;
  void make_coarse_buffers();
  void write_coarse_centres();
  BindingTable coarse_table() const;
  void record_coarse_product(CommandList& list, std::uint32_t first);
  void record_coarse_vectors(CommandList& list);
  void record_coarse_matrix(CommandList& list);
  void record_elimination(CommandList& list, std::uint32_t first, std::uint32_t count);
  /// preconditioned += P (Pᵀ A P)⁻¹ Pᵀ residual, and its part of r·z.
  void record_coarse_correction(CommandList& list, bool predicated);
  void prepare_coarse_lists();
  /// What makes the coarse space at the point of `stepping`, where it is due: to be queued before
  /// the solve.
  void precondition_coarse(VulkanEngine& stepping, std::vector<const Recorded*>& lists);

  // schur.cpp: elimination of blocks that do not meet
  std::string make_schur();
  SchurOperands schur_operands() const;
  bool prepare_schur_lists();

  // taken_step.cpp: steps that the device takes itself
  void record_taking(CommandList& list);
  void record_taken_move(CommandList& list);
  /// The kernels of record_taking(); x stays where it is.
  void record_taking_kernels(CommandList& list);
  /// False: this engine's steps are left to the caller.
  bool prepare_taking(const std::optional<StepRule>& rule);
  /// True: with a copy of x.
  bool queue_taking(std::vector<const Recorded*>& lists);
  void read_taken(bool staged);
  void report_taken(StepReport& report);

  // narrow_solve.cpp: the system of this engine's steps in another one, of lower precision
  struct NarrowSystem {
    VulkanEngine* engine = nullptr;
    bool follows = false;  // its matrix is that of the current point
  };
  void prepare_narrow();
  /// Brings point, matrix and gradient there, where they are not.
  void queue_narrow(std::vector<const Recorded*>& lists);
  /// Between this engine's numbers and those of the engine that it solves for.
  void record_converted(CommandList& list, VectorOp op, const Buffer& from, const Buffer& to);
  void record_narrow_gradient(CommandList& list);
  void record_narrow_step(CommandList& list);

  // step.cpp: damped least squares
  /// Queues the solve behind `lists`; as iterate(). Returns the iterations.
  int solve_system(const StepRequest& request, bool takes, VulkanEngine& stepping,
                   std::vector<const Recorded*> lists);
  void record_linearize(CommandList& list);
  void record_linearization(CommandList& list);
  void record_trial(CommandList& list);
  void record_rescaled(CommandList& list);
  PointReport point_report(const AcceptedPoints::Scalars& values) const;
  void record_scale(CommandList& list, const StepRequest& request);
  /// Buffers of a step; its kernels are not yet needed.
  void begin_step();
  void record_step(CommandList& list);
  void prepare_lists();
  void make_point_lists();

  EngineOptions options_;
  Context context_;
  DeviceModel problem_;
  Recorder recorder_{context_};
  StepVectors v_;
  DeviceTerms terms_{context_, problem_, v_};

  TermRows rows_{context_, recorder_, problem_, v_, terms_};
  TermHessians hessians_{context_, recorder_, problem_, v_, terms_};
  TermSums sums_{context_, recorder_, problem_, v_, terms_, rows_};
  NormalProducts products_{context_, recorder_, problem_, v_, terms_, sums_};
  PointMoves moves_{context_, problem_, v_};
  AcceptedPoints points_{context_, recorder_, problem_, v_};
  BegunEvaluations begun_{context_, recorder_, problem_, v_, terms_, rows_, sums_, points_};
  KernelVariants variants_{context_, recorder_, problem_,  v_,    terms_,
                           rows_,    sums_,     products_, begun_};
  Derived<Landing> result_landing_{recorder_.kernels};
  Derived<Preparation> step_preparation_{recorder_.structure};
  Derived<std::map<KernelKind, Preparation>> preparations_{recorder_.structure};
  bool scale_is_set_ = false;
  double moved_length_ = 1;  // of the last move to a trial point, as a share of step_
  int expected_iterations_ = 16;
  Pace pace_;

  Derived<TakingLists> taking_{recorder_.kernels};
  Derived<LinearLists> linear_lists_{recorder_.kernels};
  Derived<PointLists> point_lists_{recorder_.columns};
  DeviceGradientSteps gradient_steps_{
      context_, recorder_, problem_, v_,
      sums_,    points_,   moves_,   [this] { variants_.follow_fixed(); }};
  CoarseState coarse_;
  Derived<CoarseLists> coarse_lists_{recorder_.kernels};
  NarrowSystem narrow_;
  Derived<NarrowLists> narrow_lists_{recorder_.columns};
  std::vector<std::uint8_t> eliminated_;          // by scalar, in the caller's order; empty: none
  Derived<SchurState> schur_{recorder_.kernels};  // Jacobians have other columns under a mask
  double step_norm_ = 0;                          // of the last step at its full length
};

}  // namespace topograd::runtime::vulkan
