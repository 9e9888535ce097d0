//// contract
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

//// contract_matrix
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

//// contract_packed
void main() {
  GRID(b, count) {
    uint p = places[b];
    SUM block[WIDTH * WIDTH];
    for (uint i = 0u; i < WIDTH; ++i) {
      for (uint j = i; j < WIDTH; ++j) {
        SUM value = SUM(blocks[p++]);
        block[i * WIDTH + j] = value;
        block[j * WIDTH + i] = value;
      }
    }
    SUM moved[WIDTH * WIDTH];
    for (uint i = 0u; i < WIDTH; ++i) {
      for (uint j = 0u; j < WIDTH; ++j) {
        precise SUM sum = SUM(0);
        for (uint l = 0u; l < WIDTH; ++l) sum += block[i * WIDTH + l] * SUM(bases[(l * WIDTH + j) * count + b]);
        moved[i * WIDTH + j] = sum;
      }
    }
    p = places[b];
    for (uint i = 0u; i < WIDTH; ++i) {
      for (uint j = i; j < WIDTH; ++j) {
        precise SUM sum = SUM(0);
        for (uint l = 0u; l < WIDTH; ++l) sum += SUM(bases[(l * WIDTH + i) * count + b]) * moved[l * WIDTH + j];
        blocks[p++] = REAL(sum);
      }
    }
  }
}

//// expand
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

//// scatter_rows
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
