// Place of (i, j) in the packed upper triangle of a block.
uint packed(uint width, uint i, uint j) {
  uint row = min(i, j);
  return row * (2u * width - row + 1u) / 2u + max(i, j) - row;
}
