// block_sums and row_sums: less the products of the columns `pivot_first` to c0 of L, in the block's rows
// c0 + ... and in rows from + ...: of rows ty + 8 u and columns tx + 8 v at 4 u + v. Columns are staged in
// `tile`, eight at a time.
REAL block_0_0 = REAL(0);
REAL block_0_1 = REAL(0);
REAL block_0_2 = REAL(0);
REAL block_0_3 = REAL(0);
REAL block_1_0 = REAL(0);
REAL block_1_1 = REAL(0);
REAL block_1_2 = REAL(0);
REAL block_1_3 = REAL(0);
REAL block_2_0 = REAL(0);
REAL block_2_1 = REAL(0);
REAL block_2_2 = REAL(0);
REAL block_2_3 = REAL(0);
REAL block_3_0 = REAL(0);
REAL block_3_1 = REAL(0);
REAL block_3_2 = REAL(0);
REAL block_3_3 = REAL(0);
REAL row_0_0 = REAL(0);
REAL row_0_1 = REAL(0);
REAL row_0_2 = REAL(0);
REAL row_0_3 = REAL(0);
REAL row_1_0 = REAL(0);
REAL row_1_1 = REAL(0);
REAL row_1_2 = REAL(0);
REAL row_1_3 = REAL(0);
REAL row_2_0 = REAL(0);
REAL row_2_1 = REAL(0);
REAL row_2_2 = REAL(0);
REAL row_2_3 = REAL(0);
REAL row_3_0 = REAL(0);
REAL row_3_1 = REAL(0);
REAL row_3_2 = REAL(0);
REAL row_3_3 = REAL(0);
for (uint q = pivot_first; q < c0; q += 8u) {
  for (uint t = gl_LocalInvocationIndex; t < 256u; t += GROUP) {
    uint i = t / 8u;
    uint p = t % 8u;
    tile[p * 33u + i] = i < width ? panels[panel + (c0 + i) * pivots + q + p] : REAL(0);
    tile[528u + p * 33u + i] = i < height ? panels[panel + (from + i) * pivots + q + p] : REAL(0);
  }
  barrier();
  for (uint p = 0u; p < 8u; ++p) {
    REAL a_0 = tile[p * 33u + ty];
    REAL a_1 = tile[p * 33u + ty + 8u];
    REAL a_2 = tile[p * 33u + ty + 16u];
    REAL a_3 = tile[p * 33u + ty + 24u];
    REAL r_0 = tile[528u + p * 33u + ty];
    REAL r_1 = tile[528u + p * 33u + ty + 8u];
    REAL r_2 = tile[528u + p * 33u + ty + 16u];
    REAL r_3 = tile[528u + p * 33u + ty + 24u];
    REAL b_0 = tile[p * 33u + tx];
    REAL b_1 = tile[p * 33u + tx + 8u];
    REAL b_2 = tile[p * 33u + tx + 16u];
    REAL b_3 = tile[p * 33u + tx + 24u];
    block_0_0 = fma(-a_0, b_0, block_0_0);
    block_0_1 = fma(-a_0, b_1, block_0_1);
    block_0_2 = fma(-a_0, b_2, block_0_2);
    block_0_3 = fma(-a_0, b_3, block_0_3);
    block_1_0 = fma(-a_1, b_0, block_1_0);
    block_1_1 = fma(-a_1, b_1, block_1_1);
    block_1_2 = fma(-a_1, b_2, block_1_2);
    block_1_3 = fma(-a_1, b_3, block_1_3);
    block_2_0 = fma(-a_2, b_0, block_2_0);
    block_2_1 = fma(-a_2, b_1, block_2_1);
    block_2_2 = fma(-a_2, b_2, block_2_2);
    block_2_3 = fma(-a_2, b_3, block_2_3);
    block_3_0 = fma(-a_3, b_0, block_3_0);
    block_3_1 = fma(-a_3, b_1, block_3_1);
    block_3_2 = fma(-a_3, b_2, block_3_2);
    block_3_3 = fma(-a_3, b_3, block_3_3);
    row_0_0 = fma(-r_0, b_0, row_0_0);
    row_0_1 = fma(-r_0, b_1, row_0_1);
    row_0_2 = fma(-r_0, b_2, row_0_2);
    row_0_3 = fma(-r_0, b_3, row_0_3);
    row_1_0 = fma(-r_1, b_0, row_1_0);
    row_1_1 = fma(-r_1, b_1, row_1_1);
    row_1_2 = fma(-r_1, b_2, row_1_2);
    row_1_3 = fma(-r_1, b_3, row_1_3);
    row_2_0 = fma(-r_2, b_0, row_2_0);
    row_2_1 = fma(-r_2, b_1, row_2_1);
    row_2_2 = fma(-r_2, b_2, row_2_2);
    row_2_3 = fma(-r_2, b_3, row_2_3);
    row_3_0 = fma(-r_3, b_0, row_3_0);
    row_3_1 = fma(-r_3, b_1, row_3_1);
    row_3_2 = fma(-r_3, b_2, row_3_2);
    row_3_3 = fma(-r_3, b_3, row_3_3);
  }
  barrier();
}
REAL block_sums[16] = REAL[16](block_0_0, block_0_1, block_0_2, block_0_3,
                           block_1_0, block_1_1, block_1_2, block_1_3,
                           block_2_0, block_2_1, block_2_2, block_2_3,
                           block_3_0, block_3_1, block_3_2, block_3_3);
REAL row_sums[16] = REAL[16](row_0_0, row_0_1, row_0_2, row_0_3,
                           row_1_0, row_1_1, row_1_2, row_1_3,
                           row_2_0, row_2_1, row_2_2, row_2_3,
                           row_3_0, row_3_1, row_3_2, row_3_3);
