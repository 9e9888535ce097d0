// Computes the update matrix of a front: the update matrices of its children less L S Lᵀ of the rows below.

shared REAL tile[1024];
shared REAL left[264];
shared REAL right[264];

void main() {
  uint tx = gl_LocalInvocationIndex % 8u;
  uint ty = gl_LocalInvocationIndex / 8u;
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    for (uint t = gl_LocalInvocationIndex; t < 1024u; t += GROUP) tile[t] = REAL(0);
    barrier();
    #include front_children
    REAL sum_0_0 = tile[(ty) * 32u + tx];
    REAL sum_0_1 = tile[(ty) * 32u + tx + 8u];
    REAL sum_0_2 = tile[(ty) * 32u + tx + 16u];
    REAL sum_0_3 = tile[(ty) * 32u + tx + 24u];
    REAL sum_1_0 = tile[(ty + 8u) * 32u + tx];
    REAL sum_1_1 = tile[(ty + 8u) * 32u + tx + 8u];
    REAL sum_1_2 = tile[(ty + 8u) * 32u + tx + 16u];
    REAL sum_1_3 = tile[(ty + 8u) * 32u + tx + 24u];
    REAL sum_2_0 = tile[(ty + 16u) * 32u + tx];
    REAL sum_2_1 = tile[(ty + 16u) * 32u + tx + 8u];
    REAL sum_2_2 = tile[(ty + 16u) * 32u + tx + 16u];
    REAL sum_2_3 = tile[(ty + 16u) * 32u + tx + 24u];
    REAL sum_3_0 = tile[(ty + 24u) * 32u + tx];
    REAL sum_3_1 = tile[(ty + 24u) * 32u + tx + 8u];
    REAL sum_3_2 = tile[(ty + 24u) * 32u + tx + 16u];
    REAL sum_3_3 = tile[(ty + 24u) * 32u + tx + 24u];
    uint begin = 0u;
    uint end = pivots;
    #include front_products
    REAL sums[16] = REAL[16](sum_0_0, sum_0_1, sum_0_2, sum_0_3, sum_1_0, sum_1_1, sum_1_2, sum_1_3,
                             sum_2_0, sum_2_1, sum_2_2, sum_2_3, sum_3_0, sum_3_1, sum_3_2, sum_3_3);
    for (uint k = 0u; k < 16u; ++k) {
      uint r = r0 + ty + 8u * (k / 4u);
      uint c = c0 + tx + 8u * (k % 4u);
      if (r < rows && c >= pivots && c <= r) {
        uint i = r - pivots;
        remains[fronts[word + 3u] - remains_first + i * (i + 1u) / 2u + c - pivots] = sums[k];
      }
    }
  }
}
