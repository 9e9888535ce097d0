//// cg_curvature
void main() {
  if (decision[STATE] != RUNNING) return;  // the solver is done
  begin_products(pq, decision[RZ]);
  GRID(i, count) {
    uint k = first + i;
    REAL p = direction[k];
    precise REAL q = product[k] + damping[k] * p;
    product[k] = q;
    add_products(pq, p, q);
  }
  store_products(0, pq, curvature);
}

//// cg_direction
void main() {
  begin_direction();
  GRID(i, count) {
    uint k = first + i;
    precise REAL p = preconditioned[k] + REAL(beta) * direction[k];
    direction[k] = p;
  }
}

//// cg_finish
void main() {
  SUM state = scalars[NEXT_STATE];
  if (state == RUNNING) {
    decide();
    if (gl_LocalInvocationIndex == 0u) {
      scalars[RZ] = rz;
      scalars[RR] = rr;
    }
  }
  if (gl_LocalInvocationIndex == 0u) {
    scalars[STATE] = state;
    scalars[NEXT_STATE] = state;
    scalars[PENDING] = SUM(0);
  }
}

//// cg_init
void main() {
  begin_sum(rz);
  begin_sum(rr);
  GRID(b, count) {
    uint k = first + b * WIDTH;
    #each precise REAL r_$ = -gradient[k + $u];
    #include solve_block
    #each delta[k + $u] = REAL(0);
    #each direction[k + $u] = REAL(0);
    #include store_block
    add(rz, ALL(SUM(r_$) * SUM(z_$)));
    add(rr, ALL(SUM(r_$) * SUM(r_$)));
  }
  store_sum(0, rz, partials);
  store_sum(1, rr, partials);
}

//// cg_start
void main() {
  uint norm = scalars[IN_ENERGY] != SUM(0) ? sums_first : sums_first + sums_stride;
  total(before, partials, norm, sums_count);
  if (gl_LocalInvocationIndex != 0u) return;
  precise SUM threshold = scalars[TOLERANCE] * scalars[TOLERANCE] * before;
  scalars[THRESHOLD] = threshold;
  scalars[ITERATIONS] = SUM(0);
  scalars[GAINS] = SUM(0);
  scalars[NEXT_STATE] = SUM(0);
  scalars[PENDING] = SUM(0);
}

//// cg_update
// Returns where the decision is not to run, or p·q is not positive. One invocation counts the
// iteration. If it gains little, its update is made, and no other follows.
// Source: as for GainTest in runtime/linear/gain_test.hpp.
void main() {
  SUM next_state = decision[STATE];
  #if decides
  if (next_state != RUNNING && gl_GlobalInvocationID.x == 0u) scalars[NEXT_STATE] = next_state;
  #end
  if (next_state != RUNNING) return;
  total(pq, curvature, sums_first, sums_count);
  if (!(pq > SUM(0)) || is_inf(pq)) next_state = BREAKDOWN;
  precise SUM alpha = decision[RZ] / pq;
  #if decides
  if (gl_GlobalInvocationID.x == 0u) {
    precise SUM after = next_state;
    if (next_state == RUNNING) {
      precise SUM gain = alpha * decision[RZ];
      precise SUM gains = scalars[GAINS] + gain;
      precise SUM iterations = scalars[ITERATIONS] + SUM(1);
      scalars[GAINS] = gains;
      scalars[ITERATIONS] = iterations;
      precise SUM recent = iterations * gain;
      precise SUM least = scalars[ETA] * gains;
      if (recent < least) after = CONVERGED;
    }
    scalars[NEXT_STATE] = after;
    scalars[PREVIOUS_RZ] = decision[RZ];
  }
  #end
  if (next_state != RUNNING) return;
  #if both
  SUM alpha_before = scalars[ALPHA];
  #end
  #if decides
  #if later
  if (gl_GlobalInvocationID.x == 0u) {
    scalars[ALPHA] = alpha;
    scalars[PENDING] = alpha;
  }
  #end
  #if both
  if (gl_GlobalInvocationID.x == 0u) {
    scalars[PENDING] = SUM(0);
  }
  #end
  #end
  begin_products(rz, decision[RZ]);
  begin_products(rr, decision[RR]);
  GRID(b, count) {
    uint k = first + b * WIDTH;
    #if now
    #each precise REAL d_$ = delta[k + $u] + REAL(alpha) * direction[k + $u];
    #end
    #if both
    #each precise REAL e_$ = delta[k + $u] + REAL(alpha_before) * direction_before[k + $u];
    #each precise REAL d_$ = e_$ + REAL(alpha) * direction[k + $u];
    #end
    #each precise REAL r_$ = residual[k + $u] - REAL(alpha) * product[k + $u];
    #include solve_block
    #if !later
    #each delta[k + $u] = d_$;
    #end
    #include store_block
    add_products(rz, r_$, z_$);
    add_rounded(rr, r_$, r_$);
  }
  store_products(0, rz, partials);
  store_products(1, rr, partials);
}
