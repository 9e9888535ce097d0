// Lists of an iteration, and the loop on the host.
#include "part_gradients.hpp"

#include "../../linear/gain_test.hpp"

#include <array>
#include <cmath>

namespace topograd::runtime::vulkan {

using codegen::Scalar;

namespace {

/// Writes numbers as wide as sums before the next submission.
void write_sums(const Context& context, const Buffer& buffer, std::span<const double> values) {
  if (context.scalar_precision() == Precision::f64)
    return context.device->upload<double>(buffer, values);
  const std::vector<float> narrow(values.begin(), values.end());
  context.device->upload<float>(buffer, narrow);
}

}  // namespace

PartGradients::PartGradients(const Part& part, TermSums& sums, const ChunkSums& chunks,
                             PartGhosts& ghosts, PartWork& work)
    : Part(part),
      sums_(sums),
      chunks_(chunks),
      ghosts_(ghosts),
      work_(work),
      products_(context_, chunks.of(), 2),
      curvature_(context_, chunks.of(), 1),
      number_bytes_(context_.scalar_precision() == Precision::f64 ? sizeof(double) : sizeof(float)),
      beta_(context_.device->buffer(number_bytes_, MemoryKind::Upload, "beta")),
      products_now_(context_.device->buffer(2 * number_bytes_, MemoryKind::Upload, "products")) {
  v_.curvature = make_partials(context_, 1);
}

std::vector<Recorder::List> PartGradients::lists() {
  const auto take_beta = [this](CommandList& l) {
    l.copy(beta_, 0, v_.ops->scalars(), codegen::slot(Scalar::user) * number_bytes_, number_bytes_);
  };
  const auto direct_product = [this, take_beta](CommandList& l) {
    take_beta(l);
    ghosts_.record_unpack(l, v_.preconditioned);
    l.barrier();
    record_direction(l);
    record_product(l);
  };
  const auto direction = [this, take_beta](CommandList& l) {
    take_beta(l);
    l.barrier();
    record_direction(l);
    ghosts_.record_pack(l, v_.direction);
  };
  const auto product = [this](CommandList& l) {
    ghosts_.record_unpack(l, v_.direction);
    l.barrier();
    record_product(l);
  };
  return {{start_, "part_start", [this](CommandList& l) { record_start(l); }},
          {direct_product_, "part_direct_product", direct_product},
          {direction_, "part_direction", direction},
          {product_, "part_product", product},
          {update_, "part_update", [this](CommandList& l) { record_update(l); }}};
}

void PartGradients::record_preconditioned(CommandList& list) {
  list.barrier();
  chunks_.record(list, kernel::chunk_products{{.x = v_.residual, .y = v_.preconditioned}, {}},
                 products_);
  ghosts_.record_pack(list, v_.preconditioned);
}

void PartGradients::record_start(CommandList& list) {
  v_.record_by_blocks(list, v_.preconditioner());
  list.barrier();
  v_.record_by_blocks(list, kernel::cg_init{{.gradient = v_.gradient,
                                             .delta = v_.step,
                                             .residual = v_.residual,
                                             .direction = v_.direction,
                                             .preconditioned = v_.preconditioned,
                                             .fixed_scalars = v_.not_free(),
                                             .partials = v_.partials},
                                            {.out_stride = v_.block_groups()}});
  record_preconditioned(list);
}

void PartGradients::record_direction(CommandList& list) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list,
                 kernel::axpby{{.x = v_.preconditioned, .y = v_.direction},
                               {.count = n, .x_factor = Scalar::one, .y_factor = Scalar::user}});
  list.barrier();
}

void PartGradients::record_product(CommandList& list) {
  sums_.record(list, Pass::jtjp, terms_.operands(v_.x, &v_.direction), v_.product);
  chunks_.record(list,
                 kernel::chunk_curvature{{.direction = v_.direction,
                                          .damping = v_.damping,
                                          .product = v_.product,
                                          .fixed_scalars = v_.not_free()},
                                         {}},
                 curvature_);
}

// The update finds α in r·z and one partial sum of p·q.
void PartGradients::record_update(CommandList& list) {
  list.copy(products_now_, 0, v_.decision, codegen::slot(Scalar::rz) * number_bytes_,
            number_bytes_);
  list.copy(products_now_, number_bytes_, v_.curvature, 0, number_bytes_);
  list.barrier();
  v_.record_by_blocks(list, kernel::cg_update{{.product = v_.product,
                                               .residual = v_.residual,
                                               .direction = v_.direction,
                                               .direction_before = v_.direction,
                                               .delta = v_.step,
                                               .preconditioned = v_.preconditioned,
                                               .fixed_scalars = v_.not_free(),
                                               .partials = v_.partials,
                                               .curvature = v_.curvature,
                                               .decision = v_.decision},
                                              {.out_stride = v_.block_groups(), .sums_count = 1}});
  record_preconditioned(list);
}

PartGradients::Products PartGradients::products() {
  work_.run([&] { products_.read(context_); });
  const std::vector<double> totals = chunks_.totals(products_.numbers, 2);
  return {.rr = totals[0], .rz = totals[1]};
}

double PartGradients::multiply(double beta) {
  if (chunks_.of().mixed) {
    work_.run([&] {
      write_sums(context_, beta_, std::array{beta});
      recorder_.submit(direction_);
    });
    ghosts_.exchange();
    work_.run([&] { recorder_.submit(product_); });
  } else {
    ghosts_.exchange();
    work_.run([&] {
      write_sums(context_, beta_, std::array{beta});
      recorder_.submit(direct_product_);
    });
  }
  work_.run([&] { curvature_.read(context_); });
  return chunks_.totals(curvature_.numbers, 1)[0];
}

PartGradients::Products PartGradients::move(double rz, double curvature) {
  work_.run([&] {
    write_sums(context_, products_now_, std::array{rz, curvature});
    recorder_.submit(update_);
  });
  return products();
}

int PartGradients::solve(const StepRequest& request) {
  const std::pair<Scalar, double> scalars[] = {{Scalar::lambda, request.lambda},
                                               {Scalar::min_diagonal, request.min_diagonal},
                                               {Scalar::max_diagonal, request.max_diagonal},
                                               {Scalar::eta, 0.0}};
  constexpr std::array<double, codegen::kScalarCount> kRunning{};
  work_.run([&] {
    v_.ops->write(scalars);
    write_sums(context_, v_.decision, kRunning);
    recorder_.submit(start_);
  });
  const auto norm = [&](const Products& of) {
    return std::sqrt(request.energy_norm ? of.rz : of.rr);
  };
  Products now = products();
  const double enough = request.linear_tolerance * norm(now);
  GainTest gains(request.eta);
  double beta = 0;
  int iterations = 0;
  while (now.rr > 0 && norm(now) > enough && iterations < request.max_linear_iterations) {
    const double curvature = multiply(beta);
    if (!std::isfinite(curvature) || !(curvature > 0)) break;
    const Products next = move(now.rz, curvature);
    ++iterations;
    if (gains.enough(now.rz * (now.rz / curvature))) break;
    beta = next.rz / now.rz;
    now = next;
  }
  return iterations;
}

}  // namespace topograd::runtime::vulkan
