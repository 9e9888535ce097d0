if (h == SUM(0) || (masked != 0u && fixed_scalars[k] != 0u)) continue;
SUM g = SUM(gradient[k]);
SUM x = SUM(point[k]);
SUM d = SUM(delta[k]);
precise SUM scaled = g / sqrt(h);
add(g_squared, scaled * scaled);
add(x_squared, h * x * x);
add(step_squared, h * d * d);
greatest = maximum(greatest, abs(scaled));
