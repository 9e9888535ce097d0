void main() {
  #include stop_with_solver
  GRID(e, count) {
    uint k = first + aggregates[e] * WIDTH;
    precise REAL sum = REAL(0);
    for (uint f = 0u; f < WIDTH; ++f) sum += REAL(weights[k + f]) * vectors[f * count + e];
    uint s = entries[e];
    if (overwrite == 0u) sum = result[s] + sum;
    result[s] = sum;
  }
}
