if (scalars[SCALES_LATER] != SUM(0) && scale[k] == REAL(0)) {
  precise SUM here = SUM(1) / sqrt(h);
  if (here > SUM(0) && !is_inf(here * here)) scale[k] = REAL(here);
}
if (h == SUM(0) || (masked != 0u && fixed_scalars[k] != 0u)) continue;
SUM g = SUM(gradient[k]);
SUM x = SUM(point[k]);
SUM d = SUM(delta[k]);
precise SUM scaled = is_inf(h) ? h : g / sqrt(h);
add(g_squared, scaled * scaled);
add(x_squared, h * x * x);
add(step_squared, h * d * d);
greatest = maximum(greatest, abs(scaled));
