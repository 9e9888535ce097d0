void main() {
  REAL a = REAL(scalars[columns_factor]);
  REAL c = REAL(scalars[vector_factor]);
  GRID(b, count) {
    uint k = places[b];
    for (uint j = 0u; j < WIDTH; ++j) {
      precise REAL value = a * columns[j * count + b];
      if (vector_factor != ZERO) value = value + c * vector[k + j];
      result[k + j] = value;
    }
  }
}
