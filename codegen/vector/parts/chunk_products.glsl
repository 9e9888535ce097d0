void main() {
  begin_sum(squares);
  begin_sum(products);
  CHUNK(k) {
    SUM value = SUM(x[k]);
    add(squares, value * value);
    add(products, value * SUM(y[k]));
  }
  store_sum(0, squares, partials);
  store_sum(1, products, partials);
}
