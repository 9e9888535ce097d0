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
