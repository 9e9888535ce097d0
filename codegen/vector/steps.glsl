//// bounded_norms
// Comparisons are written so that a NaN stays one.
void main() {
  #include begin_norms
  GRID(i, count) {
    uint k = first + i;
    #include bounded_norms_scalar
  }
  #include store_norms
}

//// bounded_trial
// The model is that of the whole step, as in trial_point.
void main() {
  REAL fraction = REAL(scalars[length]);
  begin_sum(decrease);
  begin_sum(squared);
  begin_sum(slope);
  GRID(i, count) {
    uint k = first + i;
    REAL x = point[k];
    precise REAL trial = x + fraction * delta[k];
    if (trial < lower_bounds[k]) trial = lower_bounds[k];
    if (trial > upper_bounds[k]) trial = upper_bounds[k];
    result[k] = trial;
    SUM d = SUM(delta[k]);
    precise SUM moved = SUM(trial) - SUM(x);
    add(decrease, SUM(0.5) * d * ((SUM(residual[k]) + SUM(damping[k]) * d) - SUM(gradient[k])));
    add(squared, moved * moved);
    add(slope, SUM(gradient[k]) * d);
  }
  store_sum(0, decrease, partials);
  store_sum(1, squared, partials);
  store_sum(2, slope, partials);
}

//// choose_length
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

//// open_conditional
void main() {
  bool opens = scalars[condition] > SUM(0);
  #include open_conditional_if
}

//// take_step
void main() {
  SUM cost = scalars[COST];
  SUM trial = scalars[TRIAL_COST];
  SUM decrease = scalars[MODEL_DECREASE];
  SUM length = scalars[LENGTH];
  bool rescaled = scalars[IS_RESCALED] != SUM(0);
  bool back = rescaled && !(scalars[RESCALED_COST] < trial);
  if (rescaled && !back) {
    trial = scalars[RESCALED_COST];
    if (length < SUM(1)) decrease = decrease * (length * (SUM(2) - length));
  }
  precise SUM gain = (cost - trial) / decrease;
  bool decided = scalars[STATE] != SUM(0);
  precise SUM bound = cost + scalars[MIN_DECREASE] * scalars[SLOPE];
  if (scalars[MIN_DECREASE] != SUM(0) && !(trial <= bound)) decided = false;
  bool finite = !(is_nan(trial) || is_inf(trial)) && !(is_nan(decrease) || is_inf(decrease));
  bool accepted = finite && decrease > SUM(0) && gain > scalars[MIN_GAIN];
  bool opens = decided && accepted;
  #include open_conditional_if
  barrier();  // all have read
  if (gl_LocalInvocationIndex != 0u) return;
  scalars[TRIAL_COST] = trial;
  scalars[MODEL_DECREASE] = decrease;
  scalars[LENGTH] = back ? SUM(1) : length;
  scalars[GOES_BACK] = back ? SUM(1) : SUM(0);
  scalars[VERDICT] = !decided ? UNDECIDED : accepted ? ACCEPTED : REFUSED;
}
