void main() {
  GRID(i, count) {
    precise SUM squared = SUM(scale[i]) * SUM(scale[i]);
    precise SUM scaled = squared * SUM(blocks[diagonals[i]]);
    SUM clamped = clamp(scaled, scalars[MIN_DIAGONAL], scalars[MAX_DIAGONAL]);
    precise SUM added = scalars[LAMBDA] * clamped / squared;
    SUM diagonal = SUM(blocks[diagonals[i]]);
    if (squared == SUM(0)) added = scalars[LAMBDA] * (diagonal > SUM(0) ? diagonal : SUM(1));
    if (masked != 0u && fixed_scalars[i] != 0u) added = SUM(0);
    damping[i] = REAL(added);
  }
}
