if (masked != 0u && fixed_scalars[k] != 0u) {
  gradient[k] = REAL(0);
  continue;
}
SUM g = SUM(gradient[k]);
SUM x = SUM(point[k]);
add(g_squared, g * g);
add(x_squared, x * x);
greatest = maximum(greatest, abs(g));
