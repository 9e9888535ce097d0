// Construction of preconditioners by name.
#include "step_preconditioner.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "../../../ir/error.hpp"
#include "../../linear/coarse_plan.hpp"
#include "block_jacobi.hpp"
#include "two_level.hpp"

namespace topograd::runtime::cpu {

#define TG_PRECONDITIONER(row, ...) \
  template <class T>                \
  std::unique_ptr<StepPreconditioner<T>> make_##row(Preconditioner asked, Bits bits);
#include "../../linear/preconditioners.def"

template <class T>
std::unique_ptr<StepPreconditioner<T>> make_preconditioner(Preconditioner asked, Bits bits) {
  // The two-level one begins as block_jacobi.
  if (asked == Preconditioner::automatic) return make_two_level<T>(asked, bits);
#define TG_PRECONDITIONER(row, ...)                                               \
  if constexpr (PreconditionerRow{.value = {}, .name = {}, __VA_ARGS__}.on_cpu) { \
    if (asked == Preconditioner::row) return make_##row<T>(asked, bits);          \
  }
#include "../../linear/preconditioners.def"
  throw Error(ErrorCode::Unsupported, "cpu engine: the preconditioner exists on devices alone");
}
template std::unique_ptr<StepPreconditioner<float>> make_preconditioner(Preconditioner, Bits);
template std::unique_ptr<StepPreconditioner<double>> make_preconditioner(Preconditioner, Bits);

namespace {

template <class T>
class TwoLevelPreconditioner final : public StepPreconditioner<T> {
 public:
  using typename HostPreconditioner<T>::Range;

  TwoLevelPreconditioner(Preconditioner asked, Bits bits) : control_(asked), coarse_(bits) {}

  std::size_t ranges() const override { return blocks_.ranges(); }
  Range range(std::size_t k) const override { return blocks_.range(k); }
  void apply(std::size_t k, const T* r, T* z) const override { blocks_.apply(k, r, z); }
  double correct(const T* r, T* z) override {
    return control_.in_use() ? coarse_.add(*pool_, control_.plan(), r, z) : 0.0;
  }

  void follow(const Model& model) override;
  void begin_solve() override { control_.begin_solve(); }
  void transfer(ir::StateRecord& record) override {
    control_.transfer(record, model_);
    if (control_.in_use()) coarse_.transfer(record, control_.plan());
  }
  void build(Pool& pool, const StepSystem<T>& system) override;
  void solved(int iterations) override { control_.solved(iterations); }
  bool is_norm() const override { return control_.in_use(); }
  PreconditionerUse use() const override { return control_.use(); }
  std::vector<MemoryUse> memory() const override {
    return together(blocks_.memory(), {{"coarse space", coarse_.bytes(), 0}});
  }

 private:
  BlockJacobi<T> blocks_;
  CoarseControl control_;
  TwoLevel<T> coarse_;
  Model model_;  // for planning the coarse space
  std::vector<std::uint64_t> pattern_versions_;
  Pool* pool_ = nullptr;
};

// Plans the coarse space again if instances or fixed flags have changed.
template <class T>
void TwoLevelPreconditioner<T>::follow(const Model& model) {
  std::vector<std::uint64_t> versions;
  for (const Term& term : model.terms) versions.push_back(term.batch->structure_version());
  const auto batch = [](const Term& term) { return term.batch; };
  const bool same = model.scalars == model_.scalars && versions == pattern_versions_ &&
                    std::ranges::equal(model.terms, model_.terms, {}, batch, batch) &&
                    model.constant == model_.constant &&
                    model.lower.empty() == model_.lower.empty() &&
                    model.manifolds == model_.manifolds;
  model_ = model;
  pattern_versions_ = std::move(versions);
  if (!same) control_.model_changed();
}

template <class T>
void TwoLevelPreconditioner<T>::build(Pool& pool, const StepSystem<T>& system) {
  pool_ = &pool;
  blocks_.build(pool, system);
  const auto here = [&] { return std::vector<double>(system.x, system.x + model_.scalars); };
  if (!control_.due(model_, here)) return;
  if (coarse_.build(pool, control_.plan(), {system.x, model_.scalars, system.matrix, blocks_})) {
    control_.built();
  } else {
    control_.failed(PreconditionerReason::indefinite);
  }
}

}  // namespace

template <class T>
std::unique_ptr<StepPreconditioner<T>> make_two_level(Preconditioner asked, Bits bits) {
  return std::make_unique<TwoLevelPreconditioner<T>>(asked, bits);
}
template std::unique_ptr<StepPreconditioner<float>> make_two_level(Preconditioner, Bits);
template std::unique_ptr<StepPreconditioner<double>> make_two_level(Preconditioner, Bits);

}  // namespace topograd::runtime::cpu
