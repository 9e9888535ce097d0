void main() {
  begin_sum(with_step);
  begin_sum(with_change);
  begin_sum(with_gradient);
  uint start = gl_WorkGroupID.x / groups * stride;
  uint begin = gl_WorkGroupID.x % groups * GROUP + gl_LocalInvocationIndex;
  for (uint i = begin; i < count; i += groups * GROUP) {
    SUM v = SUM(history[start + i]);
    add(with_step, v * SUM(delta[i]));
    add(with_change, v * SUM(change[i]));
    add(with_gradient, v * SUM(gradient[i]));
  }
  store_sum(0, with_step, partials);
  store_sum(1, with_change, partials);
  store_sum(2, with_gradient, partials);
}
