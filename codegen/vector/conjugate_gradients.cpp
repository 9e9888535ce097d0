// Vector kernels of preconditioned conjugate gradients; scalars never leave the device.
// Source: Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., algorithm 9.1.
#include "text.hpp"

namespace topograd::codegen {
namespace {

// r·z and r·r of the block at hand, then its z.
void add_products(VectorText& out) {
  std::string rz, rr;
  for (std::uint32_t j = 0; j < out.width(); ++j) {
    rz += text(j > 0 ? " + " : "", "{S}(r_", j, ") * {S}(z_", j, ")");
    rr += text(j > 0 ? " + " : "", "{S}(r_", j, ") * {S}(r_", j, ")");
  }
  out.add("rz", rz);
  out.add("rr", rr);
}

void open_blocks(VectorText& out) {
  out.begin_sum("rz");
  out.begin_sum("rr");
  out.open_grid("b");
  out.lines("uint k = first + b * {W};");
}

void close_blocks(VectorText& out) {
  out.close();
  out.store_partial(0, "rz");
  out.store_partial(1, "rr");
}

// z of the block at hand: inverse r, or r itself.
void write_preconditioned(VectorText& out) {
  if (out.request().unpreconditioned) {
    out.each("{T} z_{j} = r_{j};");
    return;
  }
  write_apply_inverse(out);
}

// The residual of fixed scalars is 0, so that their direction stays 0.
void write_residual(VectorText& out, std::string_view value) {
  out.read_u32(BufferRole::fixed);
  out.each(text("precise {T} r_{j} = ", value, ";"));
  out.shader().body().open("if (masked != 0u)");
  out.each("if (fixed_scalars[{k}] != 0u) r_{j} = {T}(0);");
  out.close();
}

void store_residual(VectorText& out) {
  out.each("residual[{k}] = r_{j};");
  if (out.request().unpreconditioned) return;
  out.write({BufferRole::preconditioned});
  out.each("preconditioned[{k}] = z_{j};");
}

void write_init(VectorText& out) {
  out.read({BufferRole::gradient});
  out.write({BufferRole::step, BufferRole::residual, BufferRole::direction});
  open_blocks(out);
  write_residual(out, "-gradient[{k}]");
  write_preconditioned(out);
  out.each("delta[{k}] = {T}(0);");
  out.each("direction[{k}] = {T}(0);");
  store_residual(out);
  add_products(out);
  close_blocks(out);
}

void write_start(VectorText& out) {
  out.scalars({Scalar::tolerance, Scalar::iterations, Scalar::gains, Scalar::threshold,
               Scalar::next_state, Scalar::pending, Scalar::in_energy},
              Access::read_write);
  out.lines("uint norm = scalars[IN_ENERGY] != {S}(0) ? sums_first : sums_first + sums_stride;");
  out.total_of_partials("before", "norm", "sums_count");
  out.lines(R"(
if (gl_LocalInvocationIndex != 0u) return;
precise {S} threshold = scalars[TOLERANCE] * scalars[TOLERANCE] * before;
scalars[THRESHOLD] = threshold;
scalars[ITERATIONS] = {S}(0);
scalars[GAINS] = {S}(0);
scalars[NEXT_STATE] = {S}(0);
scalars[PENDING] = {S}(0);
)");
}

void write_direction(VectorText& out) {
  out.read({BufferRole::preconditioned});
  out.update({BufferRole::direction});
  out.conjugate().open_direction(true);
  out.open_grid("i");
  out.lines(R"(
uint k = first + i;
precise {T} p = preconditioned[k] + {T}(beta) * direction[k];
direction[k] = p;
)");
  out.close();
}

void write_curvature(VectorText& out) {
  out.read({BufferRole::direction, BufferRole::damping});
  out.update({BufferRole::product});
  out.predicate(BufferRole::decision);
  out.begin_sum("pq");
  out.open_grid("i");
  out.lines(R"(
uint k = first + i;
{T} p = direction[k];
precise {T} q = product[k] + damping[k] * p;
product[k] = q;
)");
  out.add("pq", "{S}(p) * {S}(q)");
  out.close();
  out.store_partial(0, "pq", BufferRole::curvature);
}

void write_update(VectorText& out) {
  const StepTime time = out.request().step_time;
  out.read({BufferRole::product});
  out.update({BufferRole::residual});
  if (time != StepTime::later) {
    out.read({BufferRole::direction});
    out.update({BufferRole::step});
  }
  if (time == StepTime::both) out.read({BufferRole::next_direction});
  out.conjugate().open_update(out.request().decides, time);
  open_blocks(out);
  if (time == StepTime::now) {
    out.each("precise {T} d_{j} = delta[{k}] + {T}(alpha) * direction[{k}];");
  } else if (time == StepTime::both) {
    out.each("precise {T} e_{j} = delta[{k}] + {T}(alpha_before) * next_direction[{k}];");
    out.each("precise {T} d_{j} = e_{j} + {T}(alpha) * direction[{k}];");
  }
  write_residual(out, "residual[{k}] - {T}(alpha) * product[{k}]");
  write_preconditioned(out);
  if (time != StepTime::later) out.each("delta[{k}] = d_{j};");
  store_residual(out);
  add_products(out);
  close_blocks(out);
}

}  // namespace

bool write_conjugate_gradients(VectorText& out) {
  switch (out.request().op) {
    case VectorOp::cg_init: write_init(out); return true;
    case VectorOp::cg_start: write_start(out); return true;
    case VectorOp::cg_direction: write_direction(out); return true;
    case VectorOp::cg_curvature: write_curvature(out); return true;
    case VectorOp::cg_update: write_update(out); return true;
    case VectorOp::cg_finish: out.conjugate().finish(); return true;
    default: return false;
  }
}

}  // namespace topograd::codegen
