void main() {
  begin_sum(pq);
  CHUNK(k) {
    REAL p = direction[k];
    precise REAL q = product[k] + damping[k] * p;
    if (masked != 0u && fixed_scalars[k] != 0u) q = REAL(0);
    product[k] = q;
    add(pq, SUM(p) * SUM(q));
  }
  store_sum(0, pq, partials);
}
