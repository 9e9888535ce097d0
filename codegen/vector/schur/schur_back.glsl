// δ of eliminated blocks from that of kept ones.

#include packed

void main() {
  GRID(i, count) {
    uint block = i / block_columns;
    uint t = i % block_columns;
    uint scalar = eliminated_scalars[first + block];
    precise SUM sum = SUM(0);
    for (uint s = 0u; s < block_columns; ++s) {
      uint at = inverse_first + block + packed(block_columns, s, t) * inverses;
      sum -= SUM(inverse_blocks[at]) * SUM(gradient[scalar + s]);
    }
    uint end = starts[first + block + 1u];
    for (uint e = starts[first + block]; e < end; ++e) {
      uint column = entries[3u * e] + t;
      uint kept = entries[3u * e + 1u];
      uint rows = entries[3u * e + 2u];
      for (uint a = 0u; a < rows; ++a) {
        sum -= SUM(couplings[column + a * block_columns]) * SUM(kept_step[kept + a]);
      }
    }
    delta[scalar + t] = REAL(sum);
  }
}
