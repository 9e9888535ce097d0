// v_i = Σ_j P_ij d_j
void main() {
  GRID(b, count) {
    uint k = places[b];
    REAL given[WIDTH];
    for (uint j = 0u; j < WIDTH; ++j) given[j] = tangents[k + j];
    for (uint i = 0u; i < WIDTH; ++i) {
      precise REAL sum = REAL(0);
      for (uint j = 0u; j < WIDTH; ++j) sum += bases[(i * WIDTH + j) * count + b] * given[j];
      result[k + i] = sum;
    }
  }
}
