void main() {
  GRID(e, count) {
    if (follows[e] == 0u) continue;
    uint k = first + aggregates[e] * WIDTH;
    REAL answer = answers[entries[e]];
    for (uint f = 0u; f < WIDTH; ++f) {
      precise REAL sum = vectors[f * count + e] - REAL(weights[k + f]) * answer;
      vectors[f * count + e] = sum;
    }
  }
}
