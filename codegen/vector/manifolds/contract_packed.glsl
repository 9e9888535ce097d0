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
