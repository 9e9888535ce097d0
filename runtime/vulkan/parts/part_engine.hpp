// The engine of a part of a model on a device: its steps, and its exchange with other parts.
#pragma once

#include "../../engine/damped_steps.hpp"
#include "../../model/model.hpp"
#include "../../rows/rows.hpp"
#include "../terms/device_terms.hpp"
#include "../terms/term_rows.hpp"
#include "../terms/term_sums.hpp"

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {

/// Keeps an exception until the end of a collective call. The other parts wait in exchanges, so a
/// part whose device fails goes on to take part in them: it skips the work that is left, and its
/// numbers are NaN (ChunkSums).
class PartWork {
 public:
  /// Calls f(), unless work of this call has failed.
  template <class F>
  void run(const F& f) {
    if (failure_) return;
    try {
      f();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  bool failed() const { return failure_ != nullptr; }
  /// Ends a collective call: throws what was kept.
  void finish() {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  std::exception_ptr failure_;
};

/// Columns of numbers, one for each own chunk. Kernels write them to memory of the host.
struct ChunkColumns {
  ///   count  columns
  ChunkColumns(const Context& context, const ModelPart& part, std::uint32_t count);
  /// Waits for the submission that wrote them.
  void read(Context& context);
  std::span<double> column(std::uint32_t k) {
    return std::span(numbers).subspan(std::size_t{k} * chunks, chunks);
  }

  std::uint32_t chunks;
  Buffer sums;
  std::vector<double> numbers;  ///< on the host
};

/// Sums of the own chunks. Each takes the order of its chunk, so that it does not depend on the
/// division of the model.
class ChunkSums : Part {
 public:
  ///   work  of this part's device; outlives it
  ChunkSums(const Part& part, std::shared_ptr<const ModelPart> of, const PartWork& work);

  const ModelPart& of() const { return *of_; }
  std::uint32_t chunks() const { return static_cast<std::uint32_t>(of_->chunks.size()); }

  /// A kernel with a workgroup for each chunk, to columns from `first` on.
  template <class Kernel>
  void record(CommandList& list, Kernel kernel, const ChunkColumns& columns,
              std::uint32_t first = 0) const {
    if (chunks() == 0) return;
    if constexpr (requires { kernel.buffers.ends; }) kernel.buffers.ends = ends_;
    if constexpr (requires { kernel.push.out_stride; }) kernel.push.out_stride = chunks();
    kernel.buffers.partials = columns.sums;
    kernel.push.out_first = first * chunks();
    v_.ops->record(list, kernel, {.groups = chunks()});
  }

  /// Sums of adjacent columns over all chunks of the model, in their order. NaN for the own chunks
  /// if the device's work has failed. Collective.
  std::vector<double> totals(std::span<const double> columns, std::size_t count) const;
  /// The same; of the last column the largest number, or NaN.
  std::vector<double> totals_and_largest(std::span<const double> columns, std::size_t count) const;

 private:
  /// The numbers of all chunks of the model.
  std::span<const double> all_chunks(std::span<const double> columns, std::size_t count) const;

  std::shared_ptr<const ModelPart> of_;
  const PartWork& work_;
  Buffer ends_;  // first and end of each chunk
};

/// Costs of all terms by chunk.
class PartCosts : Part {
 public:
  PartCosts(const Part& part, TermRows& rows, const ChunkSums& sums);

  std::uint32_t columns() const { return static_cast<std::uint32_t>(terms_.size()); }
  /// A column for each term, from `first` on. Begins behind a barrier, ends with one to come.
  void record(CommandList& list, const Buffer& x, const ChunkColumns& columns, std::uint32_t first);
  /// The cost of the model from such columns on the host. Collective.
  double total(ChunkColumns& columns, std::uint32_t first) const;

 private:
  struct Instances {  // of one term, by chunk, ascending
    Buffer starts, entries;
  };
  Instances instances_of(const Term& term) const;

  TermRows& rows_;
  const ChunkSums& sums_;
  std::vector<Instances> instances_;  // by term
};

/// Copies to ghosts on the device the numbers of the parts that own them. Only numbers at borders
/// come to the host: a list packs them, exchange() sends them, and a later list unpacks those that
/// came.
class PartGhosts : Part {
 public:
  ///   link, work  outlive it
  PartGhosts(const Part& part, PartLink& link, PartWork& work);

  /// To memory of the host. A barrier must precede it.
  void record_pack(CommandList& list, const Buffer& v);
  /// Waits for the last submission, whose list has packed. Collective.
  void exchange();
  /// Begins and ends with barriers to come.
  void record_unpack(CommandList& list, const Buffer& v);

 private:
  void exchange_narrow();

  PartLink& link_;
  PartWork& work_;
  std::uint32_t borders_, ghosts_;
  Buffer border_scalars_, ghost_scalars_;  // scalars of the part
  Buffer packed_, received_;               // in memory of the host
  std::vector<double> out_, in_;           // copies for numbers in f32
};

/// Solves (JᵀJ + Λ) δ = −gradient, preconditioned by blocks. Vectors stay on the device; the host
/// exchanges borders and sums by chunk, and decides. An iteration is two submissions.
///
/// Ghosts of the direction are not exchanged: each part makes them from those of the preconditioned
/// residual, by the operations of the parts that own them, and those of δ from them. Where some
/// parts are on CPUs (ModelPart::mixed), directions are exchanged, as there, by one more
/// submission.
class PartGradients : Part {
 public:
  /// All of these outlive it.
  PartGradients(const Part& part, TermSums& sums, const ChunkSums& chunks, PartGhosts& ghosts,
                PartWork& work);

  /// Its lists, to be made before the first solve.
  std::vector<Recorder::List> lists();
  /// Leaves δ in the vectors, with its ghosts. Returns the iterations. Collective.
  int solve(const StepRequest& request);

 private:
  struct Products {
    double rr = 0, rz = 0;
  };
  void record_preconditioned(CommandList& list);
  void record_start(CommandList& list);
  void record_direction(CommandList& list);
  void record_product(CommandList& list);
  void record_update(CommandList& list);
  Products products();
  double multiply(double beta);
  Products move(double rz, double curvature);

  TermSums& sums_;
  const ChunkSums& chunks_;
  PartGhosts& ghosts_;
  PartWork& work_;
  ChunkColumns products_, curvature_;
  std::uint64_t number_bytes_;  // of a scalar
  Buffer beta_, products_now_;  // numbers that the host writes and lists copy: β; r·z and p·q
  Recorded start_, direct_product_, direction_, product_, update_;
};

/// Steps that all parts make together; each call is collective. Reports have the same bits for any
/// division of the model among devices of one kind. A call throws after the last of its exchanges.
class PartSteps final : public DampedSteps, public StepLengths, public LastStep, Part {
 public:
  /// All of these outlive it.
  PartSteps(const Part& part, const std::shared_ptr<const ModelPart>& of, TermRows& rows,
            TermSums& sums);

  void begin_solve() override { is_scaled_ = false; }
  void transfer(ir::StateRecord& record) override;
  PointReport linearize() override;
  StepReport try_step(const StepRequest& request) override;
  StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override { problem_.read_point(v_.trial, x); }
  void accept() override;
  PreconditionerUse preconditioner() const override {
    return {.asked_for = true, .why = {PreconditionerReason::asked_for}};
  }

  StepReport rescale_step(double length) override;
  void last_step(std::span<double> delta) override { problem_.read(v_.step, delta); }

  /// As Engine::cost(), and Guards::trial_cost().
  double cost();
  double trial_cost();
  /// The point is another one.
  void moved() { moved_length_ = 0; }

 private:
  bool bounded() const { return !problem_.model().lower.empty(); }
  void make_lists();
  void record_linearize(CommandList& list);
  void record_trial(CommandList& list);
  void record_mask(CommandList& list);
  void record_scale(CommandList& list, const StepRequest& request);
  void scale(const StepRequest& request);
  /// The step is known, its ghosts included.
  void share_step();
  double cost_by(const Recorded& list, ChunkColumns& columns);
  template <class T>
  void transfer_scale(ir::StateRecord& record);
  /// Tells a move what its sums are for. Engines on CPUs exchange them one by one.
  enum class Move { solved, given, rescaled };
  /// Moves to the trial point of that length.
  StepReport move(double length, Move move);
  StepReport report(Move move);
  StepReport report_with_cpus(Move move);

  PartWork work_;
  ChunkSums chunks_;
  PartGhosts ghosts_;
  PartCosts costs_;
  TermSums& sums_;
  PartGradients gradients_;
  ChunkColumns point_figures_, trial_figures_, point_cost_, trial_cost_;
  Buffer lower_, upper_;  // if there are bounds
  Recorded linearize_, trial_, mask_, unmask_, accept_, cost_list_, trial_cost_list_;
  bool is_scaled_ = false;
  double moved_length_ = 0;  // of the step that led to the point, over that of δ; 0: none did
};

/// Evaluates at its point; steps are those of PartSteps. Sums by unknown have the order of the
/// whole model, and are evaluated again for each unknown, so that a division changes no bit of
/// them.
class PartEngine final : public Engine, public SecondDerivatives, public Guards, public Plans {
 public:
  ///   options  `part` is set; its link outlives the engine
  PartEngine(const Model& model, const EngineOptions& options);

  Abilities abilities() override {
    return {.steps = &*steps_,
            .step_lengths = &*steps_,
            .last_step = &*steps_,
            .second_derivatives = this,
            .guards = this,
            .plans = this};
  }
  Backend backend() const override { return Backend::vulkan; }
  std::string device() const override { return context_.device->info().name; }
  EngineStats stats() const override { return recorder_.stats(); }
  std::string accumulation() const override { return sums_.choices().accumulation(); }
  PlanRecord plan() const override;
  std::unique_ptr<RowRunner> row_runner() const override;
  /// Throws Error{Unsupported}: a part of another model is another engine.
  void refresh(const Model& model) override;

  void set_point(std::span<const double> x) override;
  void point(std::span<double> x) override { problem_.read_point(v_.x, x); }
  double cost() override { return steps_->cost(); }
  void residuals(std::span<double> out) override { vectors_.residuals(out); }
  void gradient(std::span<double> out) override { vectors_.gradient(out); }
  void jacobian(std::size_t term, std::span<double> values) override {
    rows_.jacobian(term, values);
  }
  void jvp(std::span<const double> p, std::span<double> out) override { vectors_.jvp(p, out); }
  void vjp(std::span<const double> seeds, std::span<double> out) override { rows_.vjp(seeds, out); }
  void jtjp(std::span<const double> p, std::span<double> out) override { vectors_.jtjp(p, out); }
  void hvp(std::span<const double> p, std::span<double> out) override { vectors_.hvp(p, out); }
  void hessian(std::size_t term, bool project, std::span<double> values) override {
    hessians_.read(term, project, values);
  }

  std::uint64_t failed_guards() override { return terms_.failed_guards(); }
  std::vector<std::uint32_t> failed_instances(std::size_t term, At at) override {
    return rows_.failed_instances(term, at);
  }
  double trial_cost() override { return steps_->trial_cost(); }

 private:
  Context context_;
  DeviceModel problem_;
  Recorder recorder_{context_};
  StepVectors v_;
  DeviceTerms terms_{context_, problem_, v_};
  const Part part_{context_, recorder_, problem_, v_, terms_};
  TermRows rows_{part_};
  TermHessians hessians_{part_};
  TermSums sums_{part_, rows_};
  PointVectors vectors_{part_, rows_, sums_};
  std::unique_ptr<PartSteps> steps_;
};

}  // namespace topograd::runtime::vulkan
