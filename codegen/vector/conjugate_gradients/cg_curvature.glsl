void main() {
  if (decision[0] != RUNNING) return;  // the solver is done
  begin_sum(pq);
  GRID(i, count) {
    uint k = first + i;
    REAL p = direction[k];
    precise REAL q = product[k] + damping[k] * p;
    product[k] = q;
    add(pq, SUM(p) * SUM(q));
  }
  store_sum(0, pq, curvature);
}
