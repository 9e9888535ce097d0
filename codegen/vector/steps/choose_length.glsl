// With g·δ ≈ −2 × the model's decrease, as where the damping is small, the parabola's minimum lies
// at decrease / (change + 2 decrease). Comparisons are false for a NaN.
void main() {
  SUM decrease = scalars[MODEL_DECREASE];
  precise SUM change = scalars[TRIAL_COST] - scalars[COST];
  precise SUM gain = -change / decrease;
  SUM length = SUM(1);
  if (scalars[STATE] != SUM(0) && decrease > SUM(0) && gain > scalars[LEAST_GAIN]) {
    precise SUM bend = change + SUM(2) * decrease;
    SUM longest = scalars[LONGEST];
    length = longest;
    if (bend > SUM(0)) length = min(decrease / bend, longest);
    if (abs(length - SUM(1)) < scalars[LEAST_CHANGE]) length = SUM(1);
  }
  bool opens = length != SUM(1);
  #include open_conditional_if
  if (gl_LocalInvocationIndex != 0u) return;
  scalars[LENGTH] = length;
  scalars[IS_RESCALED] = opens ? SUM(1) : SUM(0);
}
