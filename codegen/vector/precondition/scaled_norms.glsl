// Norms in which a change of the unknowns' units cancels out.
void main() {
  #include begin_scaled_norms
  GRID(i, count * WIDTH) {
    uint b = i / WIDTH;
    uint j = i % WIDTH;
    uint k = first + i;
    uint diagonal = j * (2u * WIDTH - j + 1u) / 2u;
    SUM h = SUM(blocks[blocks_first + b * PACKED + diagonal]);
    #include scaled_norms_scalar
  }
  #include store_scaled_norms
}
