// Blocks in a list, whose damping is there: first scalar and place of the packed triangle.

#include inverse_factor

void main() {
  GRID(b, count) {
    SUM block[WIDTH * WIDTH];
    uint k = places[2u * (first + b)];
    uint p = places[2u * (first + b) + 1u];
    for (uint i = 0u; i < WIDTH; ++i) {
      for (uint j = i; j < WIDTH; ++j) {
        precise SUM value = SUM(blocks[p++]);
        if (i == j) value = value + SUM(damping[k + i]);
        if (masked != 0u && (fixed_scalars[k + i] != 0u || fixed_scalars[k + j] != 0u)) {
          value = i == j ? SUM(1) : SUM(0);
        }
        block[i * WIDTH + j] = value;
      }
    }
    SUM factor[WIDTH * WIDTH];
    bool positive = inverse_factor(block, factor);
    precise SUM spoilt = positive ? SUM(0) : scalars[ZERO] / scalars[ZERO];
    p = inverse_first + b;
    for (uint i = 0u; i < WIDTH; ++i) {
      for (uint j = i; j < WIDTH; ++j) {
        precise SUM sum = spoilt;
        for (uint k = j; k < WIDTH; ++k) sum += factor[k * WIDTH + i] * factor[k * WIDTH + j];
        inverse_blocks[p] = REAL(sum);
        p += count;
      }
    }
  }
}
