void main() {
  begin_sum(slope);
  begin_sum(squared);
  GRID(i, count) {
    SUM g = SUM(gradient[i]);
    precise SUM sum = overwrite == 0u ? SUM(result[i]) : factors[0] * g;
    for (uint v = 0u; v < vectors; ++v) {
      SUM factor = factors[first_factor + v];
      if (factor != SUM(0)) sum += factor * SUM(history[v * stride + i]);
    }
    REAL combined = REAL(sum);
    result[i] = combined;
    add(slope, SUM(combined) * g);
    add(squared, SUM(combined) * SUM(combined));
  }
  store_sum(0, slope, partials);
  store_sum(1, squared, partials);
}
