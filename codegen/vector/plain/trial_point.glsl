// With r = −g − (JᵀJ + Λ) δ the linear model decreases by ½ δ·(r + Λδ − g).
void main() {
  begin_sum(decrease);
  begin_sum(squared);
  begin_sum(slope);
  GRID(i, count) {
    uint k = first + i;
    precise REAL trial = point[k] + delta[k];
    result[k] = trial;
    SUM d = SUM(delta[k]);
    add(decrease, SUM(0.5) * d * ((SUM(residual[k]) + SUM(damping[k]) * d) - SUM(gradient[k])));
    add(squared, d * d);
    add(slope, SUM(gradient[k]) * d);
  }
  store_sum(0, decrease, partials);
  store_sum(1, squared, partials);
  store_sum(2, slope, partials);
}
