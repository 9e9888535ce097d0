// An iteration's direction and its product with S in one: next_direction = preconditioned + β
// direction, which every row reads as it makes it.

shared SUM row_sums[GROUP];

void main() {
  begin_direction();
  begin_sum(pq);
  #include schur_rows
    if (row < count) {
      uint values = row_words[5u * row];
      uint columns = row_words[5u * row + 1u];
      uint end = row_words[5u * row + 2u];
      for (uint e = lane; e < end; e += WIDTH) {
        uint c = column_numbers[columns + e];
        precise REAL p = preconditioned[c] + REAL(beta) * direction[c];
        sum += SUM(complement[values + e]) * SUM(p);
      }
    }
    #include add_row_sums
    if (row < count && lane == 0u) {
      precise REAL p = preconditioned[row] + REAL(beta) * direction[row];
      REAL q = REAL(row_sums[gl_LocalInvocationIndex]);
      next_direction[row] = p;
      product[row] = q;
      add(pq, SUM(p) * SUM(q));
    }
  }
  store_sum(0, pq, curvature);
}
