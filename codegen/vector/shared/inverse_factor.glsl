// Lower triangle of the inverse of the Cholesky factor of a block (of which the upper triangle is read);
// false, and the inverse roots of the diagonal, where the block is not positive definite.
bool inverse_factor(SUM block[WIDTH * WIDTH], out SUM factor[WIDTH * WIDTH]) {
  bool positive = true;
  for (uint j = 0u; j < WIDTH; ++j) {
    for (uint i = j; i < WIDTH; ++i) {
      precise SUM value = block[j * WIDTH + i];
      for (uint k = 0u; k < j; ++k) value -= block[i * WIDTH + k] * block[j * WIDTH + k];
      if (i == j) {
        positive = positive && value > SUM(0) && !(is_nan(value) || is_inf(value));
        precise SUM root = sqrt(value);
        factor[j * WIDTH + j] = root;
      } else {
        precise SUM entry = value / factor[j * WIDTH + j];
        block[i * WIDTH + j] = entry;
      }
    }
  }
  for (uint j = 0u; j < WIDTH; ++j) {
    if (!positive) {
      SUM diagonal = block[j * WIDTH + j];
      precise SUM root = diagonal > SUM(0) ? SUM(1) / sqrt(diagonal) : SUM(1);
      for (uint i = 0u; i < WIDTH; ++i) factor[i * WIDTH + j] = i == j ? root : SUM(0);
      continue;
    }
    precise SUM pivot = SUM(1) / factor[j * WIDTH + j];
    factor[j * WIDTH + j] = pivot;
    for (uint i = j + 1u; i < WIDTH; ++i) {
      precise SUM sum = SUM(0);
      for (uint k = j; k < i; ++k) sum -= block[i * WIDTH + k] * factor[k * WIDTH + j];
      precise SUM entry = sum / factor[i * WIDTH + i];
      factor[i * WIDTH + j] = entry;
    }
  }
  return positive;
}
