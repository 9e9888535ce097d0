void main() {
  GRID(i, count * WIDTH) {
    uint b = i / WIDTH;
    uint j = i % WIDTH;
    diagonal[first + i] = blocks[blocks_first + b * PACKED + j * (2u * WIDTH - j + 1u) / 2u];
  }
}
