void main() {
  begin_sum(squares);
  begin_sum(products);
  uint end = ends[2u * gl_WorkGroupID.x + 1u];
  for (uint k = ends[2u * gl_WorkGroupID.x] + gl_LocalInvocationIndex; k < end; k += GROUP) {
    SUM value = SUM(x[k]);
    add(squares, value * value);
    add(products, value * SUM(y[k]));
  }
  store_sum(0, squares, partials);
  store_sum(1, products, partials);
}
