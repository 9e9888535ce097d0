void main() {
  bool opens = scalars[condition] > SUM(0);
  #include open_gate_if
}
