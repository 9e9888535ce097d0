void main() {
  GRID(e, count) {
    result[places[e]] = source[e];
  }
}
