shared SUM row_sums[GROUP];

void main() {
  #include schur_rows
    if (row < count) {
      uint block = row_words[5u * row + 3u];
      uint a = row_words[5u * row + 4u];
      uint end = starts[block + 1u];
      for (uint e = starts[block] + lane; e < end; e += WIDTH) {
        uint width = entries[3u * e + 2u];
        uint left = entries[3u * e] + a * width;
        uint right = entries[3u * e + 1u];
        for (uint t = 0u; t < width; ++t) sum += SUM(couplings[left + t]) * SUM(gradient[right + t]);
      }
    }
    #include add_row_sums
    if (row < count && lane == 0u) {
      precise SUM value = SUM(gradient[kept_scalars[row]]) - row_sums[gl_LocalInvocationIndex];
      reduced_gradient[row] = REAL(value);
    }
  }
}
