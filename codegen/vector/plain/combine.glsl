void main() {
  REAL a = REAL(scalars[x_factor]);
  REAL b = REAL(scalars[y_factor]);
  GRID(i, count) {
    uint k = first + i;
    precise REAL value = REAL(0);
    if (x_factor != ZERO) value = a * x[k];
    if (y_factor != ZERO) value = value + b * y[k];
    result[k] = value;
  }
}
