void main() {
  bool opens = scalars[condition] > SUM(0);
  #include open_conditional_if
}
