// Adds what the children left to the pivots' columns.

shared REAL tile[1024];

void main() {
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    for (uint t = gl_LocalInvocationIndex; t < 1024u; t += GROUP) tile[t] = REAL(0);
    barrier();
    #include front_children
    for (uint t = gl_LocalInvocationIndex; t < 1024u; t += GROUP) {
      uint r = r0 + t / 32u;
      uint c = c0 + t % 32u;
      if (r < rows && c < pivots && c <= r) {
        uint at = panel + r * pivots + c;
        precise REAL sum = panels[at] + tile[t];
        panels[at] = sum;
      }
    }
    barrier();
  }
}
