//// matrix_blocks
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

//// matrix_diagonal
// An invocation an entry of a diagonal block.

#include packed

void main() {
  GRID(i, count) {
    uint block = i / (WIDTH * WIDTH);
    uint a = i % (WIDTH * WIDTH) / WIDTH;
    uint b = i % WIDTH;
    uint word = 4u * (first + block);
    uint o = row_words[word] + a * row_words[word + 2u] + row_words[word + 3u] + b;
    matrix[o] = blocks[blocks_first + block * PACKED + packed(WIDTH, a, b)];
  }
}

//// matrix_multiply
void main() {
  #include matrix_rows
      #each product[k + $u] = row_real(sum_$);
    }
    barrier();
  }
}

//// matrix_product
// The damped product of an iteration, and its curvature.
void main() {
  if (decision[STATE] != RUNNING) return;  // the solver is done
  begin_products(pq, decision[RZ]);
  #include matrix_rows
      #each REAL p_$ = direction[k + $u];
      #each precise REAL q_$ = row_real(sum_$) + damping[k + $u] * p_$;
      #each product[k + $u] = q_$;
      add_products(pq, p_$, q_$);
    }
    barrier();
  }
  store_products(0, pq, curvature);
}

//// matrix_residual
// Residual of the damped normal equations, in the precision of sums.
void main() {
  #include matrix_rows
      #each precise SUM left_$ = SUM(gradient[k + $u]) + row_sum(sum_$) + SUM(damping[k + $u]) * SUM(direction[k + $u]);
      #each residual[k + $u] = masked != 0u && fixed_scalars[k + $u] != 0u ? REAL(0) : REAL(-left_$);
    }
    barrier();
  }
}
