// d_j = Σ_i P_ij v_i, by invocation a vector
void main() {
  GRID(t, count) {
    uint item = 4u * (first + t / vectors);
    uint k = places[item] + t % vectors * places[item + 2u];
    uint stride = places[item + 1u];
    uint b = places[item + 3u];
    REAL given[WIDTH];
    for (uint j = 0u; j < WIDTH; ++j) given[j] = matrix[k + j * stride];
    for (uint i = 0u; i < WIDTH; ++i) {
      precise SUM sum = SUM(0);
      for (uint j = 0u; j < WIDTH; ++j) sum += SUM(bases[(j * WIDTH + i) * blocks + b]) * SUM(given[j]);
      matrix[k + i * stride] = REAL(sum);
    }
  }
}
