// Vector kernels of preconditioned conjugate gradients; scalars never leave the device.
// Source: Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., algorithm 9.1.
#include <topograd/codegen/vector_text.hpp>

namespace topograd::codegen {
namespace {

std::string state(SolverState value, Precision precision) {
  return literal(static_cast<double>(value), precision);
}

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

void write_init(VectorText& out) {
  out.read({BufferRole::gradient});
  out.write(
      {BufferRole::step, BufferRole::residual, BufferRole::preconditioned, BufferRole::direction});
  open_blocks(out);
  if (out.request().masked) {
    out.read_u32(BufferRole::fixed);
    out.each("precise {T} r_{j} = fixed_scalars[{k}] != 0u ? {T}(0) : -gradient[{k}];");
  } else {
    out.each("precise {T} r_{j} = -gradient[{k}];");
  }
  write_apply_inverse(out);
  out.each("delta[{k}] = {T}(0);");
  out.each("residual[{k}] = r_{j};");
  out.each("preconditioned[{k}] = z_{j};");
  out.each("direction[{k}] = z_{j};");
  add_products(out);
  close_blocks(out);
}

// One invocation goes on with the totals.
void keep_first(VectorText& out) { out.lines("if (gl_LocalInvocationIndex != 0u) return;"); }

void write_start(VectorText& out) {
  const Precision s = out.request().scalars;
  out.scalars({Scalar::state, Scalar::tolerance, Scalar::iterations, Scalar::rz, Scalar::rr,
               Scalar::threshold},
              Access::read_write);
  out.total_of_partials("rz", "out_first");
  out.total_of_partials("rr", "out_first + out_stride");
  keep_first(out);
  out.lines(R"(
precise {S} threshold = scalars[TOLERANCE] * scalars[TOLERANCE] * rr;
scalars[RZ] = rz;
scalars[RR] = rr;
scalars[THRESHOLD] = threshold;
scalars[ITERATIONS] = {S}(0);
)");
  out.lines("{S} next_state = " + state(SolverState::running, s) + ";");
  out.lines("if (!(rz > {S}(0)) || " + out.not_finite("rz") +
            ") next_state = " + state(SolverState::breakdown, s) + ";");
  out.lines("if (rr == {S}(0)) next_state = " + state(SolverState::converged, s) + ";");
  out.lines("scalars[STATE] = next_state;");
}

void write_curvature(VectorText& out) {
  out.read({BufferRole::direction, BufferRole::damping});
  out.update({BufferRole::product});
  out.predicate();
  out.begin_sum("pq");
  out.open_grid("i");
  out.lines(R"(
uint k = first + i;
{T} p = direction[k];
precise {T} q = product[k] + damping[k] * p;
)");
  if (out.request().masked) {
    out.read_u32(BufferRole::fixed);
    out.lines("if (fixed_scalars[k] != 0u) q = {T}(0);");
  }
  out.lines("product[k] = q;");
  out.add("pq", "{S}(p) * {S}(q)");
  out.close();
  out.store_partial(0, "pq");
}

void write_alpha(VectorText& out) {
  out.scalars({Scalar::state, Scalar::rz, Scalar::pq, Scalar::alpha}, Access::read_write);
  out.predicate();
  out.total_of_partials("pq", "out_first");
  keep_first(out);
  out.lines("scalars[PQ] = pq;");
  out.shader().body().open("if (!(pq > ", literal(0, out.request().scalars), ") || ",
                           out.not_finite("pq"), ")");
  out.lines("scalars[STATE] = " + state(SolverState::breakdown, out.request().scalars) + ";");
  out.lines("return;");
  out.close();
  out.lines(R"(
precise {S} alpha = scalars[RZ] / pq;
scalars[ALPHA] = alpha;
)");
}

void write_update(VectorText& out) {
  out.read({BufferRole::direction, BufferRole::product});
  out.update({BufferRole::step, BufferRole::residual});
  out.write({BufferRole::preconditioned});
  out.scalars({Scalar::alpha});
  out.predicate();
  out.lines("{T} alpha = {T}(scalars[ALPHA]);");
  open_blocks(out);
  out.each("precise {T} d_{j} = delta[{k}] + alpha * direction[{k}];");
  out.each("precise {T} r_{j} = residual[{k}] - alpha * product[{k}];");
  write_apply_inverse(out);
  out.each("delta[{k}] = d_{j};");
  out.each("residual[{k}] = r_{j};");
  out.each("preconditioned[{k}] = z_{j};");
  add_products(out);
  close_blocks(out);
}

void write_beta(VectorText& out) {
  const Precision s = out.request().scalars;
  out.scalars({Scalar::state, Scalar::max_iterations, Scalar::iterations, Scalar::rz, Scalar::rr,
               Scalar::threshold, Scalar::beta},
              Access::read_write);
  out.predicate();
  out.total_of_partials("rz", "out_first");
  out.total_of_partials("rr", "out_first + out_stride");
  keep_first(out);
  out.lines(R"(
precise {S} beta = rz / scalars[RZ];
precise {S} iterations = scalars[ITERATIONS] + {S}(1);
scalars[BETA] = beta;
scalars[RZ] = rz;
scalars[RR] = rr;
scalars[ITERATIONS] = iterations;
)");
  out.lines("if (rr <= scalars[THRESHOLD]) {");
  out.lines("  scalars[STATE] = " + state(SolverState::converged, s) + ";");
  out.lines("} else if (!(rz > {S}(0)) || " + out.not_finite("rz") + ") {");
  out.lines("  scalars[STATE] = " + state(SolverState::breakdown, s) + ";");
  out.lines("} else if (iterations >= scalars[MAX_ITERATIONS]) {");
  out.lines("  scalars[STATE] = " + state(SolverState::limit, s) + ";");
  out.lines("}");
}

void write_direction(VectorText& out) {
  out.read({BufferRole::preconditioned});
  out.update({BufferRole::direction});
  out.scalars({Scalar::beta});
  out.predicate();
  out.lines("{T} beta = {T}(scalars[BETA]);");
  out.open_grid("i");
  out.lines(R"(
uint k = first + i;
precise {T} p = preconditioned[k] + beta * direction[k];
direction[k] = p;
)");
  out.close();
}

}  // namespace

bool write_conjugate_gradients(VectorText& out) {
  switch (out.request().op) {
    case VectorOp::cg_init: write_init(out); return true;
    case VectorOp::cg_start: write_start(out); return true;
    case VectorOp::cg_curvature: write_curvature(out); return true;
    case VectorOp::cg_alpha: write_alpha(out); return true;
    case VectorOp::cg_update: write_update(out); return true;
    case VectorOp::cg_beta: write_beta(out); return true;
    case VectorOp::cg_direction: write_direction(out); return true;
    default: return false;
  }
}

}  // namespace topograd::codegen
