// One invocation a number of a row, so that neighbours read neighbours.
void main() {
  GRID(i, count * WIDTH) {
    uint w = i / WIDTH;
    uint k = i % WIDTH;
    uint end = starts[w + 1u];
    precise REAL sum = REAL(0);
    for (uint e = starts[w]; e < end; ++e) sum += rows[e * WIDTH + k];
    uint o = first + outputs[w] * WIDTH + k;
    if (overwrite == 0u) sum = result[o] + sum;
    result[o] = sum;
  }
}
