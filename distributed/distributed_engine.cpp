// The whole model's engine, on top of an ordinary one of the rank's part.
#include "distributed_engine.hpp"

#include "../ir/error.hpp"
#include "../ir/machine/state_record.hpp"
#include "../runtime/cpu/engine.hpp"
#include "../runtime/rows/rows.hpp"
#include "petsc_krylov.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace topograd::distributed {

using runtime::Model;

template <class F>
auto DistributedEngine::together(const F& f) const {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    ranks_.fail("out of memory");
  } catch (const std::exception& error) {
    ranks_.fail(error.what());
  }
}

DistributedEngine::DistributedEngine(const Communicator& ranks, const Model& model,
                                     const runtime::EngineOptions& options, PartitionMethod method,
                                     bool petsc_krylov)
    : ranks_(ranks), options_(options), method_(method) {
  options_.deterministic = true;
  options_.preconditioner = runtime::Preconditioner::block_jacobi;
  if (petsc_krylov) options_.krylov = std::make_shared<PetscKrylov>(ranks);
  together([&] { build(model); });
}

void DistributedEngine::build(const Model& model) {
  const std::vector<runtime::Chunk> chunks = runtime::chunks_of(model.arrays);
  const std::vector<int> owners = partition(ranks_, chunk_graph(model, chunks), method_);
  inner_ = nullptr;
  halo_ = nullptr;
  part_ = std::make_unique<LocalModel>(local_model(model, chunks, owners, ranks_.rank()));
  halo_ = std::make_unique<Halo>(ranks_, *part_, chunks, owners);
  const auto is_energy = [](const runtime::Term& term) { return term.energy; };
  options_.part = std::make_shared<runtime::ModelPart>(
      runtime::ModelPart{.chunks = part_->chunks,
                         .first = owners[0] == ranks_.rank(),
                         .has_energies = std::ranges::any_of(model.terms, is_energy),
                         .link = halo_.get()});
  inner_ = runtime::cpu::make_cpu_engine(part_->model, options_);
  here_.assign(part_->model.scalars, 0.0);
  here_too_ = here_;
  scalars_ = model.scalars;
  structure_.clear();
  for (const runtime::Term& term : model.terms)
    structure_.push_back(term.batch->structure_version());
}

std::unique_ptr<runtime::RowRunner> DistributedEngine::row_runner() const {
  return inner_->row_runner();
}

void DistributedEngine::refresh(const Model& model) {
  std::vector<std::uint64_t> structure;
  for (const runtime::Term& term : model.terms)
    structure.push_back(term.batch->structure_version());
  if (structure != structure_)
    throw Error(ErrorCode::Unsupported,
                "distributed: a residual has taken another branch; expected branches on values to "
                "stay, or select()");
  std::vector<double> x(model.scalars);
  point(x);
  together([&] { build(model); });
  set_point(x);
}

RankReport DistributedEngine::report() const {
  const Traffic& traffic = halo_->traffic();
  constexpr std::uint64_t kSumsPerIteration = 3;  // p·q, then r·r and r·z
  return {
      .blocks = part_->blocks,
      .ghosts = part_->ghost_blocks,
      .residuals = part_->residuals,
      .residuals_again = part_->again,
      .bytes_per_iteration = traffic.bytes_per_exchange + kSumsPerIteration * traffic.bytes_per_sum,
      .messages_per_iteration = traffic.messages_per_exchange,
      .exchanges = traffic.ghost_exchanges,
      .waited_seconds = traffic.seconds};
}

runtime::Abilities DistributedEngine::abilities() {
  const runtime::Abilities able = inner_->abilities();
  return {.steps = this,
          .step_lengths = this,
          .last_step = this,
          .second_derivatives = this,
          .guards = this,
          .known_point = this,
          .plans = able.plans};
}

std::string DistributedEngine::device() const {
  const std::string ranks =
      std::to_string(ranks_.size()) + (ranks_.size() == 1 ? " rank" : " ranks");
  return ranks + ", " + inner_->device();
}

template <class F>
void DistributedEngine::gather(std::span<double> whole, const F& read) {
  together([&] {
    read(std::span<double>(here_));
    part_->widen(here_, whole);
    ranks_.join(whole);
  });
}

template <class F>
void DistributedEngine::product(std::span<const double> p, std::span<double> out, const F& f) {
  together([&] { part_->narrow(p, here_too_); });
  gather(out, [&](std::span<double> here) { f(std::span<const double>(here_too_), here); });
}

template <class F>
void DistributedEngine::gather_rows(std::span<double> out, const F& read) {
  together([&] {
    std::vector<double> rows(out.size());
    read(std::span<double>(rows));
    std::ranges::fill(out, 0.0);
    for (std::size_t t = 0; t < part_->terms.size(); ++t) {
      const runtime::Term& term = part_->model.terms[t];
      if (term.energy) continue;
      const std::size_t count = term.topology->program.outputs.size();
      for (std::size_t i = 0; i < part_->terms[t].instances.size(); ++i) {
        if (part_->terms[t].counted[i] == 0) continue;
        const std::uint64_t row = term.batch->residual_row(i);
        std::copy_n(rows.data() + row, count, out.data() + row);
      }
    }
    ranks_.join(out);
  });
}

std::size_t DistributedEngine::term_here(std::size_t term) const {
  const auto of = [](const LocalModel::LocalTerm& local) { return local.whole; };
  return static_cast<std::size_t>(std::ranges::find(part_->terms, term, of) - part_->terms.begin());
}

template <class F>
void DistributedEngine::gather_instances(std::size_t term, std::span<double> values,
                                         std::size_t size, const F& read) {
  together([&] {
    std::ranges::fill(values, 0.0);
    const std::size_t t = term_here(term);
    if (t < part_->terms.size()) {
      const LocalModel::LocalTerm& local = part_->terms[t];
      std::vector<double> numbers(local.instances.size() * size);
      read(t, std::span<double>(numbers));
      for (std::size_t i = 0; i < local.instances.size(); ++i) {
        if (local.counted[i] == 0) continue;
        std::copy_n(numbers.data() + i * size, size, values.data() + local.instances[i] * size);
      }
    }
    ranks_.join(values);
  });
}

void DistributedEngine::set_point(std::span<const double> x) {
  together([&] {
    part_->narrow(x, here_);
    inner_->set_point(here_);
  });
}

void DistributedEngine::point(std::span<double> x) {
  gather(x, [&](std::span<double> here) { inner_->point(here); });
}

bool DistributedEngine::last_known_point(std::span<double> x) {
  point(x);
  return true;
}

double DistributedEngine::cost() {
  return together([&] { return inner_->cost(); });
}

void DistributedEngine::residuals(std::span<double> out) {
  gather_rows(out, [&](std::span<double> rows) { inner_->residuals(rows); });
}

void DistributedEngine::gradient(std::span<double> out) {
  gather(out, [&](std::span<double> here) { inner_->gradient(here); });
}

void DistributedEngine::jacobian(std::size_t term, std::span<double> values) {
  const std::size_t t = term_here(term);
  // Ranks without instances of the term take part, too: they do not know the size of its rows.
  const std::uint64_t size = t < part_->terms.size()
                                 ? part_->model.terms[t].topology->program.outputs.size() *
                                       part_->model.terms[t].batch->parameter_columns()
                                 : 0;
  gather_instances(term, values, size, [&](std::size_t here, std::span<double> numbers) {
    inner_->jacobian(here, numbers);
  });
}

void DistributedEngine::jvp(std::span<const double> p, std::span<double> out) {
  together([&] { part_->narrow(p, here_too_); });
  gather_rows(out, [&](std::span<double> rows) { inner_->jvp(here_too_, rows); });
}

void DistributedEngine::vjp(std::span<const double> seeds, std::span<double> out) {
  gather(out, [&](std::span<double> here) { inner_->vjp(seeds, here); });
}

void DistributedEngine::jtjp(std::span<const double> p, std::span<double> out) {
  product(p, out,
          [&](std::span<const double> in, std::span<double> here) { inner_->jtjp(in, here); });
}

void DistributedEngine::hvp(std::span<const double> p, std::span<double> out) {
  product(p, out, [&](std::span<const double> in, std::span<double> here) {
    inner_->abilities().second_derivatives->hvp(in, here);
  });
}

void DistributedEngine::hessian(std::size_t term, bool project, std::span<double> values) {
  const std::size_t t = term_here(term);
  const std::size_t n =
      t < part_->terms.size() ? part_->model.terms[t].batch->parameter_columns() : 0;
  gather_instances(term, values, n * (n + 1) / 2, [&](std::size_t here, std::span<double> numbers) {
    inner_->abilities().second_derivatives->hessian(here, project, numbers);
  });
}

/// Lists of the inner engine, which has the part, as those of the whole.
class DistributedEngine::JoinedLists final : public ir::PartOfLists {
 public:
  explicit JoinedLists(const DistributedEngine& engine, std::size_t scalars)
      : engine_(engine), scalars_(scalars) {}
  std::size_t size() const override { return scalars_; }
  void widen(std::span<const double> here, std::span<double> whole) override {
    engine_.part_->widen(here, whole);
    engine_.ranks_.join(whole);
  }
  void narrow(std::span<const double> whole, std::span<double> here) override {
    engine_.part_->narrow(whole, here);
  }

 private:
  const DistributedEngine& engine_;
  std::size_t scalars_;
};

void DistributedEngine::transfer(ir::StateRecord& record) {
  JoinedLists lists(*this, scalars_);
  record.set_part(&lists);
  try {
    steps().transfer(record);  // a state that does not fit is refused by all ranks
  } catch (...) {
    record.set_part(nullptr);
    throw;
  }
  record.set_part(nullptr);
}

runtime::PointReport DistributedEngine::linearize() {
  return together([&] { return steps().linearize(); });
}

runtime::StepReport DistributedEngine::try_step(const runtime::StepRequest& request) {
  return together([&] { return steps().try_step(request); });
}

runtime::StepReport DistributedEngine::try_step(std::span<const double> delta) {
  return together([&] {
    part_->narrow(delta, here_);
    return steps().try_step(std::span<const double>(here_));
  });
}

void DistributedEngine::trial_point(std::span<double> x) {
  gather(x, [&](std::span<double> here) { steps().trial_point(here); });
}

runtime::PreconditionerUse DistributedEngine::preconditioner() const {
  return steps().preconditioner();
}
runtime::NormalMatrixUse DistributedEngine::normal_matrix() const {
  return steps().normal_matrix();
}

runtime::StepReport DistributedEngine::rescale_step(double length) {
  return together([&] { return inner_->abilities().step_lengths->rescale_step(length); });
}

void DistributedEngine::last_step(std::span<double> delta) {
  gather(delta, [&](std::span<double> here) { inner_->abilities().last_step->last_step(here); });
}

std::uint64_t DistributedEngine::failed_guards() {
  return together([&] { return ranks_.sum(inner_->abilities().guards->failed_guards()); });
}

std::vector<std::uint32_t> DistributedEngine::failed_instances(std::size_t term, At at) {
  return together([&] {
    std::vector<std::uint32_t> mine;
    const std::size_t t = term_here(term);
    if (t < part_->terms.size()) {
      const LocalModel::LocalTerm& local = part_->terms[t];
      for (const std::uint32_t i : inner_->abilities().guards->failed_instances(t, at))
        if (local.counted[i] != 0) mine.push_back(local.instances[i]);
    }
    std::vector<int> counts(static_cast<std::size_t>(ranks_.size())), places(counts.size());
    const int count = static_cast<int>(mine.size());
    MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, ranks_.comm());
    int total = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      places[r] = total;
      total += counts[r];
    }
    std::vector<std::uint32_t> all(static_cast<std::size_t>(total));
    MPI_Allgatherv(mine.data(), count, MPI_UINT32_T, all.data(), counts.data(), places.data(),
                   MPI_UINT32_T, ranks_.comm());
    std::ranges::sort(all);
    return all;
  });
}

double DistributedEngine::trial_cost() {
  return together([&] { return inner_->abilities().guards->trial_cost(); });
}

}  // namespace topograd::distributed
