void main() {
  begin_sum(pq);
  uint end = ends[2u * gl_WorkGroupID.x + 1u];
  for (uint k = ends[2u * gl_WorkGroupID.x] + gl_LocalInvocationIndex; k < end; k += GROUP) {
    REAL p = direction[k];
    precise REAL q = product[k] + damping[k] * p;
    if (masked != 0u && fixed_scalars[k] != 0u) q = REAL(0);
    product[k] = q;
    add(pq, SUM(p) * SUM(q));
  }
  store_sum(0, pq, partials);
}
