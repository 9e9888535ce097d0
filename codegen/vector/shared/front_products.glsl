// Subtracts from sum_u_v, for rows ty + 8 u and columns tx + 8 v of a tile, the products of the
// columns `begin` to `end` of L S in rows r0 + ..., and of L in rows c0 + ...: eight columns at a time.
for (uint q = begin; q < end; q += 8u) {
  for (uint t = gl_LocalInvocationIndex; t < 256u; t += GROUP) {
    uint i = t / 8u;
    uint p = t % 8u;
    bool inside = q + p < end;
    left[p * 33u + i] = inside && r0 + i < rows ? panels[panel + (r0 + i) * pivots + q + p] : REAL(0);
    right[p * 33u + i] = inside && c0 + i < rows ? panels[panel + (c0 + i) * pivots + q + p] : REAL(0);
  }
  if (indefinite != 0u) {  // the same invocation's numbers: a branch above costs a tenth in f64
    for (uint t = gl_LocalInvocationIndex; t < 256u; t += GROUP) {
      uint p = t % 8u;
      if (q + p < end && panels[panel + rows * pivots + q + p] < REAL(0)) right[p * 33u + t / 8u] = -right[p * 33u + t / 8u];
    }
  }
  barrier();
  for (uint p = 0u; p < 8u; ++p) {
    REAL a_0 = left[p * 33u + ty];
    REAL a_1 = left[p * 33u + ty + 8u];
    REAL a_2 = left[p * 33u + ty + 16u];
    REAL a_3 = left[p * 33u + ty + 24u];
    REAL b_0 = right[p * 33u + tx];
    REAL b_1 = right[p * 33u + tx + 8u];
    REAL b_2 = right[p * 33u + tx + 16u];
    REAL b_3 = right[p * 33u + tx + 24u];
    sum_0_0 = fma(-a_0, b_0, sum_0_0);
    sum_0_1 = fma(-a_0, b_1, sum_0_1);
    sum_0_2 = fma(-a_0, b_2, sum_0_2);
    sum_0_3 = fma(-a_0, b_3, sum_0_3);
    sum_1_0 = fma(-a_1, b_0, sum_1_0);
    sum_1_1 = fma(-a_1, b_1, sum_1_1);
    sum_1_2 = fma(-a_1, b_2, sum_1_2);
    sum_1_3 = fma(-a_1, b_3, sum_1_3);
    sum_2_0 = fma(-a_2, b_0, sum_2_0);
    sum_2_1 = fma(-a_2, b_1, sum_2_1);
    sum_2_2 = fma(-a_2, b_2, sum_2_2);
    sum_2_3 = fma(-a_2, b_3, sum_2_3);
    sum_3_0 = fma(-a_3, b_0, sum_3_0);
    sum_3_1 = fma(-a_3, b_1, sum_3_1);
    sum_3_2 = fma(-a_3, b_2, sum_3_2);
    sum_3_3 = fma(-a_3, b_3, sum_3_3);
  }
  barrier();
}
