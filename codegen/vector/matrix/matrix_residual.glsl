// Residual of the damped normal equations, in the precision of sums.
void main() {
  #include matrix_rows
      #each precise SUM left_$ = SUM(gradient[k + $u]) + sum_$ + SUM(damping[k + $u]) * SUM(direction[k + $u]);
      #each residual[k + $u] = masked != 0u && fixed_scalars[k + $u] != 0u ? REAL(0) : REAL(-left_$);
    }
    barrier();
  }
}
