// Brings the pivots' columns of a tile up to date with the columns of one step.

shared REAL left[264];
shared REAL right[264];

void main() {
  uint tx = gl_LocalInvocationIndex % 8u;
  uint ty = gl_LocalInvocationIndex / 8u;
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    uint begin = pivot_first;
    uint end = begin + 32u;
    REAL sum_0_0 = REAL(0);
    REAL sum_0_1 = REAL(0);
    REAL sum_0_2 = REAL(0);
    REAL sum_0_3 = REAL(0);
    REAL sum_1_0 = REAL(0);
    REAL sum_1_1 = REAL(0);
    REAL sum_1_2 = REAL(0);
    REAL sum_1_3 = REAL(0);
    REAL sum_2_0 = REAL(0);
    REAL sum_2_1 = REAL(0);
    REAL sum_2_2 = REAL(0);
    REAL sum_2_3 = REAL(0);
    REAL sum_3_0 = REAL(0);
    REAL sum_3_1 = REAL(0);
    REAL sum_3_2 = REAL(0);
    REAL sum_3_3 = REAL(0);
    #include front_products
    REAL sums[16] = REAL[16](sum_0_0, sum_0_1, sum_0_2, sum_0_3, sum_1_0, sum_1_1, sum_1_2, sum_1_3,
                             sum_2_0, sum_2_1, sum_2_2, sum_2_3, sum_3_0, sum_3_1, sum_3_2, sum_3_3);
    for (uint k = 0u; k < 16u; ++k) {
      uint r = r0 + ty + 8u * (k / 4u);
      uint c = c0 + tx + 8u * (k % 4u);
      if (r < rows && c < pivots && c <= r) {
        uint at = panel + r * pivots + c;
        precise REAL value = panels[at] + sums[k];
        panels[at] = value;
      }
    }
  }
}
