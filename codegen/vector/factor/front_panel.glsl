// Factorises the pivots' block of a step, in every workgroup of its own, and computes the columns of
// L S in further rows. The block itself stays as it is, since others read it; its factor goes above
// its diagonal, and the reciprocals of the diagonal behind the panel: with the pivot's sign, and 0
// for pivots that vanish.
// A pivot changes block and rows at one time; columns are divided by the roots of pivots at the end.
// status of the step's first pivot: in its lower 8 bits 1 + the number in the step of the first one
// that is refused, 0: none; in the next 8 the number of those that vanish, then that of negative ones.

shared REAL lower[528];
shared REAL tile[1056];
shared REAL limit[32];

void main() {
  uint tx = gl_LocalInvocationIndex % 8u;
  uint ty = gl_LocalInvocationIndex / 8u;
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    uint width = min(32u, pivots - c0);
    uint from = max(r0, c0 + width);
    uint height = min(r0 + 32u, rows) - from;
    for (uint i = gl_LocalInvocationIndex; i < width; i += GROUP) {
      limit[i] = scalars[VANISHING] > SUM(0) ? limits[pivot_scalars[fronts[word + 5u] + c0 + i]] : REAL(-1);
    }
    for (uint t = gl_LocalInvocationIndex; t < 1024u; t += GROUP) {
      uint i = t / 32u;
      uint j = t % 32u;
      if (j <= i && i < width) lower[i * (i + 1u) / 2u + j] = panels[panel + (c0 + i) * pivots + c0 + j];
      if (i < height && j < width) tile[i * 33u + j] = panels[panel + (from + i) * pivots + c0 + j];
    }
    barrier();
    for (uint p = 0u; p < width; ++p) {
      REAL pivot = lower[p * (p + 1u) / 2u + p];
      precise REAL reciprocal = REAL(1) / pivot;
      REAL inverse = abs(pivot) <= limit[p] ? REAL(0) : reciprocal;
      for (uint j = p + 1u + tx; j < width; j += 8u) {
        REAL right = lower[j * (j + 1u) / 2u + p];
        for (uint k = 0u; k < 4u; ++k) {
          uint i = ty + 8u * k;
          uint at = i * (i + 1u) / 2u;
          if (j <= i && i < width) {
            precise REAL factor = lower[at + p] * inverse;
            lower[at + j] = fma(-factor, right, lower[at + j]);
          }
          if (i < height) {
            precise REAL factor = tile[i * 33u + p] * inverse;
            tile[i * 33u + j] = fma(-factor, right, tile[i * 33u + j]);
          }
        }
      }
      barrier();
    }
    if (gl_LocalInvocationIndex == 0u && r0 == c0) {
      uint failed = 0u;
      uint counts = 0u;
      for (uint p = width; p > 0u; --p) {
        precise REAL pivot = lower[(p - 1u) * p / 2u + p - 1u];
        precise REAL none = pivot - pivot;
        if (abs(pivot) <= limit[p - 1u]) {
          counts += 256u;
        } else if (none == REAL(0) && pivot < REAL(0) && indefinite != 0u) {
          counts += 65536u;
        } else if (!(pivot > REAL(0) && none == REAL(0))) {
          failed = p;
        }
      }
      status[fronts[word + 5u] + c0] = failed + counts;
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < width; i += GROUP) {
      uint at = i * (i + 1u) / 2u + i;
      REAL pivot = lower[at];
      precise REAL reciprocal = REAL(1) / sqrt(abs(pivot));
      bool vanishes = abs(pivot) <= limit[i];
      REAL otherwise = indefinite != 0u && pivot < REAL(0) ? -reciprocal : REAL(uintBitsToFloat(0x7fc00000u));
      lower[at] = vanishes ? REAL(0) : pivot > REAL(0) ? reciprocal : otherwise;
    }
    barrier();
    for (uint t = gl_LocalInvocationIndex; t < 1024u; t += GROUP) {
      uint i = t / 32u;
      uint j = t % 32u;
      if (i < height && j < width) {
        precise REAL value = tile[i * 33u + j] * abs(lower[j * (j + 1u) / 2u + j]);
        panels[panel + (from + i) * pivots + c0 + j] = value;
      }
      if (r0 == c0 && i < j && j < width) {
        precise REAL value = lower[j * (j + 1u) / 2u + i] * abs(lower[i * (i + 1u) / 2u + i]);
        panels[panel + (c0 + i) * pivots + c0 + j] = value;
      }
      if (r0 == c0 && i == j && j < width) panels[panel + rows * pivots + c0 + i] = lower[i * (i + 1u) / 2u + i];
    }
    barrier();
  }
}
