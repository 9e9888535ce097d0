// Norms in which a change of the unknowns' units cancels out.
void main() {
  begin_sum(g_squared);
  begin_sum(x_squared);
  begin_sum(step_squared);
  SUM greatest = SUM(0);
  GRID(i, count * WIDTH) {
    uint b = i / WIDTH;
    uint j = i % WIDTH;
    uint k = first + i;
    uint diagonal = j * (2u * WIDTH - j + 1u) / 2u;
    SUM h = SUM(blocks[blocks_first + b * PACKED + diagonal]);
    if (h == SUM(0) || (masked != 0u && fixed_scalars[k] != 0u)) continue;
    SUM g = SUM(gradient[k]);
    SUM x = SUM(point[k]);
    SUM d = SUM(delta[k]);
    precise SUM scaled = g / sqrt(h);
    add(g_squared, scaled * scaled);
    add(x_squared, h * x * x);
    add(step_squared, h * d * d);
    greatest = maximum(greatest, abs(scaled));
  }
  store_sum(0, g_squared, partials);
  store_sum(1, x_squared, partials);
  store_sum(2, step_squared, partials);
  store_maximum(3, greatest, partials);
}
