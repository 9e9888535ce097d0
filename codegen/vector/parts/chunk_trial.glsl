// With r = −g − (JᵀJ + Λ) δ the linear model decreases by ½ δ·(r + Λδ − g).
void main() {
  REAL fraction = REAL(scalars[length]);
  begin_sum(decrease);
  begin_sum(squared);
  begin_sum(slope);
  CHUNK(k) {
    SUM d = SUM(delta[k]);
    precise REAL step = fraction * delta[k];
    precise SUM moved = bounded != 0u ? SUM(trial[k]) - SUM(point[k]) : SUM(step);
    add(decrease, SUM(0.5) * d * ((SUM(residual[k]) + SUM(damping[k]) * d) - SUM(gradient[k])));
    add(squared, moved * moved);
    add(slope, SUM(gradient[k]) * d);
  }
  store_sum(0, decrease, partials);
  store_sum(1, squared, partials);
  store_sum(2, slope, partials);
}
