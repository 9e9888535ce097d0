// d_j = Σ_i P_ij v_i
void main() {
  GRID(b, count) {
    uint k = places[b];
    REAL given[WIDTH];
    for (uint j = 0u; j < WIDTH; ++j) given[j] = result[k + j];
    for (uint i = 0u; i < WIDTH; ++i) {
      precise REAL sum = REAL(0);
      for (uint j = 0u; j < WIDTH; ++j) sum += bases[(j * WIDTH + i) * count + b] * given[j];
      result[k + i] = sum;
    }
  }
}
