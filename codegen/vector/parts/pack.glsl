void main() {
  GRID(e, count) {
    result[e] = source[places[e]];
  }
}
