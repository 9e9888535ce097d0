// One invocation an entry of a block above the diagonal, written there and to the transpose.
void main() {
  GRID(i, count) {
    #include jacobian_products
    uint o = outputs[4u * m] + a * outputs[4u * m + 1u] + b;
    if (overwrite == 0u) sum = SUM(matrix[o]) + sum;
    matrix[o] = REAL(sum);
    matrix[outputs[4u * m + 2u] + b * outputs[4u * m + 3u] + a] = REAL(sum);
  }
}
