void main() {
  GRID(i, count * WIDTH) {
    uint b = i / WIDTH;
    uint j = i % WIDTH;
    uint diagonal = j * (2u * WIDTH - j + 1u) / 2u;
    precise SUM norm = sqrt(SUM(blocks[blocks_first + b * PACKED + diagonal]));
    precise SUM sum = scalars[added] + norm;
    precise SUM value = SUM(1) / sum;
    scale[first + i] = sum > SUM(0) && !is_inf(value * value) ? REAL(value) : REAL(0);
  }
}
