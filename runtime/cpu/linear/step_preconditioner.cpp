// Inverses of small diagonal blocks, the coarse part of two levels, and preconditioners by name.
#include "step_preconditioner.hpp"

#include "../../../ir/error.hpp"
#include "../../linear/coarse_plan.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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
  void transfer(Pool& pool, ir::StateRecord& record) override {
    control_.transfer(record, model_);
    if (control_.in_use()) coarse_.transfer(pool, record, control_.plan());
  }
  void build(Pool& pool, const StepSystem<T>& system) override;
  std::span<const T> inverse_blocks() const override { return blocks_.inverse_blocks(); }
  typename StepPreconditioner<T>::CoarsePart coarse() override {
    if (!control_.in_use()) return {};
    return {&control_.plan(), &coarse_};
  }
  bool solved(int iterations) override { return control_.solved(iterations); }
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
  if (coarse_.build(pool, control_.plan(),
                    {system.x, model_.scalars, system.matrix, blocks_, system.coarse})) {
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

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor,
                             kWidestDenseBlock, kWidestDenseBlock>;

double positive_or_one(double v) {
  return v > 0 && v < std::numeric_limits<double>::infinity() ? v : 1;
}

// The damped block without its fixed scalars.
template <class T>
Matrix damped(std::uint32_t width, const T* packed, const T* damping,
              const std::uint8_t* constant) {
  Matrix block(width, width);
  for (std::uint32_t i = 0; i < width; ++i) {
    for (std::uint32_t j = i; j < width; ++j) {
      const bool out = constant != nullptr && (constant[i] != 0 || constant[j] != 0);
      double value = out ? (i == j ? 1.0 : 0.0) : double{packed[packed_index(width, i, j)]};
      if (i == j && !out) value += double{damping[i]};
      block(i, j) = block(j, i) = value;
    }
  }
  return block;
}

// One column of L⁻ᵀ L⁻¹, which begins as that of the identity. Eigen's own solves sum in an order
// that depends on the processor's registers; this is the order for registers of two numbers.
void solve_column(const Matrix& L, double* v) {
  constexpr Eigen::Index kPanel = 4;
  const Eigen::Index width = L.rows();
  for (Eigen::Index first = 0; first < width; first += kPanel) {
    const Eigen::Index end = std::min(first + kPanel, width);
    for (Eigen::Index j = first; j < end; ++j) {
      double sum = 0;
      for (Eigen::Index p = 0; p < first; ++p) sum += v[p] * L(j, p);
      v[j] -= sum;
      for (Eigen::Index p = first; p < j; ++p) v[j] -= v[p] * L(j, p);
      v[j] *= 1 / L(j, j);
    }
  }
  const Eigen::Index rest = width % kPanel;
  for (Eigen::Index end = width, first = width - (rest > 0 ? rest : kPanel); end > 0;
       end = first, first -= kPanel) {
    for (Eigen::Index j = end; j-- > first;) {
      double sum = 0;
      for (Eigen::Index p = end; p < width; ++p) sum += v[p] * L(p, j);
      v[j] -= sum;
      for (Eigen::Index p = j + 1; p < end; ++p) v[j] -= v[p] * L(p, j);
      v[j] *= 1 / L(j, j);
    }
  }
}

Matrix inverse_of(const Matrix& block) {
  const Eigen::Index width = block.rows();
  const Eigen::LLT<Matrix> factor(block);
  if (factor.info() == Eigen::Success) {
    Matrix columns = Matrix::Identity(width, width);  // by rows: the inverse is symmetric
    for (Eigen::Index k = 0; k < width; ++k) solve_column(factor.matrixLLT(), &columns(k, 0));
    Matrix inverse = columns.transpose();
    if (inverse.allFinite()) return inverse;
  }
  return Matrix(
      block.diagonal().unaryExpr([](double v) { return 1 / positive_or_one(v); }).asDiagonal());
}

template <class T>
void invert_dense(std::uint32_t width, const T* packed, const T* damping,
                  const std::uint8_t* constant, T* inverse) {
  const Matrix m = inverse_of(damped(width, packed, damping, constant));
  for (std::uint32_t i = 0; i < width; ++i) {
    for (std::uint32_t j = i; j < width; ++j) {
      inverse[packed_index(width, i, j)] = static_cast<T>(m(i, j));
    }
  }
}

template <class T>
void invert_diagonal(std::uint32_t width, const T* diagonal, const T* damping,
                     const std::uint8_t* constant, T* inverse) {
  for (std::uint32_t i = 0; i < width; ++i) {
    const bool out = constant != nullptr && constant[i] != 0;
    const double value = out ? 1.0 : double{diagonal[i]} + double{damping[i]};
    inverse[i] = static_cast<T>(1 / positive_or_one(value));
  }
}

template <class T>
void multiply_diagonal(std::uint64_t n, const T* inverse, const T* r, T* z) {
  for (std::uint64_t i = 0; i < n; ++i) z[i] = inverse[i] * r[i];
}

// z = inverse · r for `count` neighbouring blocks; W is the width, or 0 if unknown at compile time.
template <std::uint32_t W, class T>
void multiply_dense(std::uint32_t width, std::uint32_t count, const T* inverse, const T* r, T* z) {
  const std::uint32_t w = W == 0 ? width : W;
  for (std::uint32_t k = 0; k < count; ++k, inverse += packed_size(w), r += w, z += w) {
    for (std::uint32_t i = 0; i < w; ++i) {
      T sum = 0;
      for (std::uint32_t j = 0; j < w; ++j) {
        sum += inverse[packed_index(w, std::min(i, j), std::max(i, j))] * r[j];
      }
      z[i] = sum;
    }
  }
}

template <class T>
void multiply(std::uint32_t width, std::uint32_t count, const T* inverse, const T* r, T* z) {
  if (width == 1 || width > kWidestDenseBlock) {
    return multiply_diagonal(std::uint64_t{width} * count, inverse, r, z);
  }
  switch (width) {
    case 2: return multiply_dense<2>(width, count, inverse, r, z);
    case 3: return multiply_dense<3>(width, count, inverse, r, z);
    case 4: return multiply_dense<4>(width, count, inverse, r, z);
    case 6: return multiply_dense<6>(width, count, inverse, r, z);
    default: return multiply_dense<0>(width, count, inverse, r, z);
  }
}

}  // namespace

template <class T>
std::size_t BlockJacobi<T>::ranges() const {
  return sums_->of_blocks().size();
}

template <class T>
auto BlockJacobi<T>::range(std::size_t k) const -> Range {
  const SumRanges::Range& range = sums_->of_blocks()[k];
  return {range.first, range.end};
}

template <class T>
void BlockJacobi<T>::build(Pool& pool, const StepSystem<T>& system) {
  const BlockLayout& layout = system.layout;
  const T *const blocks = system.blocks, *const damping = system.damping;
  const std::span<const std::uint8_t> constant = system.fixed;
  layout_ = &layout;
  sums_ = &system.sums;
  if (inverse_.size() != layout.packed_scalars()) inverse_ = Column<T>(layout.packed_scalars());
  pool.for_ranges(layout.blocks(), kBlocksPerRange, [&](std::size_t begin, std::size_t end) {
    layout.for_runs(begin, end, [&](BlockLayout::Block block, std::uint32_t count) {
      for (std::uint32_t k = 0; k < count; ++k) {
        const std::uint8_t* fixed = constant.empty() ? nullptr : constant.data() + block.first;
        const auto invert = block.width > kWidestDenseBlock ? invert_diagonal<T> : invert_dense<T>;
        invert(block.width, blocks + block.packed, damping + block.first, fixed,
               inverse_.data() + block.packed);
        block.first += block.width;
        block.packed += packed_size(block.width);
      }
    });
  });
}

template <class T>
void BlockJacobi<T>::apply(std::size_t k, const T* r, T* z) const {
  const SumRanges::Range& range = sums_->of_blocks()[k];
  layout_->for_runs(range.first_block, range.end_block,
                    [&](const BlockLayout::Block& block, std::uint32_t count) {
                      multiply(block.width, count, inverse_.data() + block.packed, r + block.first,
                               z + block.first);
                    });
}

template <class T>
std::vector<MemoryUse> BlockJacobi<T>::memory() const {
  return {{"diagonal blocks", inverse_.size() * sizeof(T), 0}};
}

template <class T>
std::unique_ptr<StepPreconditioner<T>> make_block_jacobi(Preconditioner, Bits) {
  return std::make_unique<BlockJacobi<T>>();
}
template std::unique_ptr<StepPreconditioner<float>> make_block_jacobi(Preconditioner, Bits);
template std::unique_ptr<StepPreconditioner<double>> make_block_jacobi(Preconditioner, Bits);

template class BlockJacobi<float>;
template class BlockJacobi<double>;

namespace {

/// Aggregates and entries of one range of work.
constexpr std::size_t kAggregatesPerRange = 8;
constexpr std::size_t kEntriesPerRange = 8192;

/// Relative shift of the coarse matrix's diagonal: vectors may be dependent.
template <class T>
constexpr double kShift = sizeof(T) == sizeof(float) ? 1e-6 : 1e-12;
/// Factor and number of further shifts if that is not enough.
constexpr double kMoreShift = 100;
constexpr int kTries = 3;

}  // namespace

template <class T>
bool TwoLevel<T>::build(Pool& pool, const CoarsePlan& plan, const System& system) {
  for (Column<T>* v : {&direction_, &product_}) {
    if (v->size() != system.scalars) *v = Column<T>(system.scalars);
    std::fill(v->data(), v->data() + system.scalars, T(0));
  }
  fill_vectors(pool, plan, system);
  if (plan.answers) add_answers(pool, plan, system);
  ++version_;
  fill_matrix(pool, plan, system);
  return factorise(pool);
}

template <class T>
void TwoLevel<T>::fill_vectors(Pool& pool, const CoarsePlan& plan, const System& system) {
  const std::size_t n = plan.offsets.size();
  if (vectors_.size() != n) vectors_ = Column<T>(n);
  pool.for_ranges(n, kEntriesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      T value = static_cast<T>(plan.offsets[k]);
      const std::uint32_t from = plan.from[k];
      if (from != CoarsePlan::kNowhere) {
        const T x = system.x[from & ~CoarsePlan::kMinus];
        value += (from & CoarsePlan::kMinus) != 0 ? -x : x;
      }
      vectors_[k] = value;
    }
  });
}

template <class T>
void TwoLevel<T>::expand(Pool& pool, const CoarsePlan& plan, const double* y, T* p) const {
  const std::size_t n = plan.entries(), m = plan.functions;
  pool.for_ranges(n, kEntriesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t e = begin; e < end; ++e) {
      const double* const at = y + plan.homes[e] * m;
      T sum = 0;
      for (std::size_t f = 0; f < m; ++f) sum += static_cast<T>(at[f]) * vectors_[f * n + e];
      p[plan.scalars[e]] = sum;
    }
  });
}

template <class T>
void TwoLevel<T>::add_answers(Pool& pool, const CoarsePlan& plan, const System& system) {
  const std::size_t n = plan.entries(), m = plan.functions, size = plan.unknowns();
  // Vectors of followers are 0 while the products are computed.
  Column<T> answers(m * n);
  for (std::size_t f = 0; f < m; ++f) {
    expand(pool, plan, plan.spread.data() + f * size, direction_.data());
    system.matrix.multiply(direction_.data(), product_.data());
    pool.for_ranges(system.blocks.ranges(), 1, [&](std::size_t k, std::size_t) {
      system.blocks.apply(k, product_.data(), direction_.data());
    });
    for (std::size_t e = 0; e < n; ++e) answers[f * n + e] = -direction_[plan.scalars[e]];
    std::fill(direction_.data(), direction_.data() + system.scalars, T(0));
  }
  pool.for_ranges(n, kEntriesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t e = begin; e < end; ++e) {
      if (plan.follows[e] == 0) continue;
      for (std::size_t h = 0; h < m; ++h) {
        double sum = 0;
        for (std::size_t f = 0; f < m; ++f) {
          sum += plan.gather[f * size + plan.homes[e] * m + h] * double{answers[f * n + e]};
        }
        vectors_[h * n + e] = static_cast<T>(sum);
      }
    }
  });
}

template <class T>
void TwoLevel<T>::restrict_to(const CoarsePlan& plan, std::size_t aggregate, const T* r,
                              double* out) const {
  const std::size_t n = plan.entries();
  for (std::size_t f = 0; f < plan.functions; ++f) {
    double sum = 0;
    for (std::uint32_t e = plan.starts[aggregate]; e < plan.starts[aggregate + 1]; ++e) {
      sum += double{vectors_[f * n + e]} * double{r[plan.scalars[e]]};
    }
    out[f] = sum;
  }
}

template <class T>
std::span<const double> TwoLevel<T>::product(Pool& pool, const CoarsePlan& plan,
                                             const System& system, std::span<const double> y) {
  if (system.coarse != nullptr) return system.coarse->multiply(y);
  expand(pool, plan, y.data(), direction_.data());
  system.matrix.multiply(direction_.data(), product_.data());
  return restricted(pool, plan, product_.data());
}

template <class T>
std::span<const double> TwoLevel<T>::restricted(Pool& pool, const CoarsePlan& plan, const T* r) {
  coarse_.resize(plan.unknowns());
  pool.for_ranges(plan.aggregates, kAggregatesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t g = begin; g < end; ++g)
      restrict_to(plan, g, r, coarse_.data() + g * plan.functions);
  });
  return coarse_;
}

template <class T>
void TwoLevel<T>::fill_matrix(Pool& pool, const CoarsePlan& plan, const System& system) {
  const std::uint32_t m = plan.functions;
  const auto size = static_cast<Eigen::Index>(plan.unknowns());
  matrix_ = Eigen::MatrixXd::Zero(size, size);
  if constexpr (std::is_same_v<T, double>) {
    if (system.coarse != nullptr) system.coarse->set(plan, vectors_, version_);
  }
  std::vector<double> y(plan.unknowns());
  for (std::uint32_t k = 0; k < plan.colours * m; ++k) {
    const std::uint32_t colour = k / m, f = k % m;
    std::ranges::fill(y, 0.0);
    for (std::uint32_t g = 0; g < plan.aggregates; ++g)
      if (plan.colour[g] == colour) y[g * m + f] = 1;
    put_columns(plan, colour, f, product(pool, plan, system, y));
  }
}

/// Puts Pᵀ A P times vector f of all aggregates of a colour to the columns of these vectors.
template <class T>
void TwoLevel<T>::put_columns(const CoarsePlan& plan, std::uint32_t colour, std::uint32_t f,
                              std::span<const double> product) {
  const std::uint32_t m = plan.functions;
  for (std::uint32_t g = 0; g < plan.aggregates; ++g) {
    const std::uint32_t source = plan.sources[colour * plan.aggregates + g];
    if (source == kNoAggregate) continue;
    for (std::uint32_t h = 0; h < m; ++h) matrix_(g * m + h, source * m + f) = product[g * m + h];
  }
}

template <class T>
bool TwoLevel<T>::factorise(Pool& pool) {
  const auto n = static_cast<std::size_t>(matrix_.rows());
  double shift = kShift<T>;
  for (int k = 0; k < kTries; ++k, shift *= kMoreShift) {
    Eigen::MatrixXd shifted = matrix_;
    for (Eigen::Index i = 0; i < matrix_.rows(); ++i) {
      const double d = matrix_(i, i);
      shifted(i, i) = d > 0 ? d * (1 + shift) : 1;
    }
    if (factor_.factor(pool, {shifted.data(), n * n}, static_cast<std::uint32_t>(n))) return true;
  }
  return false;
}

template <class T>
void TwoLevel<T>::transfer(Pool& pool, ir::StateRecord& record, const CoarsePlan& plan) {
  if (record.restores()) {
    ++version_;
    const Eigen::Index n = plan.unknowns();
    vectors_ = Column<T>(plan.offsets.size());
    matrix_.resize(n, n);
  }
  record.list("coarse vectors", std::span<T>(vectors_));
  record.list("coarse matrix",
              std::span<double>(matrix_.data(), static_cast<std::size_t>(matrix_.size())));
  if (record.restores() && !factorise(pool))
    record.refuse("coarse matrix", "is not positive definite");
}

template <class T>
double TwoLevel<T>::solve(std::span<const double> b) {
  solution_ = factor_.solve(b);
  double product = 0;
  for (std::size_t k = 0; k < b.size(); ++k) product += b[k] * solution_[k];
  return product;
}

template <class T>
double TwoLevel<T>::add(Pool& pool, const CoarsePlan& plan, const T* r, T* z) {
  const std::size_t n = plan.entries(), m = plan.functions;
  const double product = solve(restricted(pool, plan, r));
  pool.for_ranges(n, kEntriesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t e = begin; e < end; ++e) {
      const double* const at = solution_.data() + plan.homes[e] * m;
      T sum = 0;
      for (std::size_t f = 0; f < m; ++f) sum += static_cast<T>(at[f]) * vectors_[f * n + e];
      z[plan.scalars[e]] += sum;
    }
  });
  return product;
}

template <class T>
std::uint64_t TwoLevel<T>::bytes() const {
  return (vectors_.size() + direction_.size() + product_.size()) * sizeof(T) +
         static_cast<std::uint64_t>(matrix_.size()) * sizeof(double) + factor_.bytes();
}

template class TwoLevel<float>;
template class TwoLevel<double>;

}  // namespace topograd::runtime::cpu
