if (fixed_scalars[k] != 0u) {
  held_scalars[k] = 1u;
  gradient[k] = REAL(0);
  continue;
}
REAL x = point[k];
REAL low = lower_bounds[k];
REAL high = upper_bounds[k];
REAL g = gradient[k];
precise REAL moved = x - g;
precise REAL projected = g;
if (moved < low) projected = x - low;
if (moved > high) projected = x - high;
bool stays = (x <= low && g > REAL(0)) || (x >= high && g < REAL(0));
held_scalars[k] = stays ? 1u : 0u;
if (stays) gradient[k] = REAL(0);
SUM v = SUM(projected);
add(g_squared, v * v);
add(x_squared, SUM(x) * SUM(x));
greatest = maximum(greatest, abs(v));
