void main() {
  SUM state = scalars[NEXT_STATE];
  if (state == RUNNING) {
    decide();
    if (gl_LocalInvocationIndex == 0u) {
      scalars[RZ] = rz;
      scalars[RR] = rr;
    }
  }
  if (gl_LocalInvocationIndex == 0u) {
    scalars[STATE] = state;
    scalars[NEXT_STATE] = state;
    scalars[PENDING] = SUM(0);
  }
}
