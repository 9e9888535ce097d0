// The damped product of an iteration, and its curvature.
void main() {
  if (decision[0] != RUNNING) return;  // the solver is done
  begin_sum(pq);
  #include matrix_rows
      #each REAL p_$ = direction[k + $u];
      #each precise REAL q_$ = REAL(sum_$) + damping[k + $u] * p_$;
      #each product[k + $u] = q_$;
      add(pq, ALL(SUM(p_$) * SUM(q_$)));
    }
    barrier();
  }
  store_sum(0, pq, curvature);
}
