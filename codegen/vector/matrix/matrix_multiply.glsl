void main() {
  #include matrix_rows
      #each product[k + $u] = REAL(sum_$);
    }
    barrier();
  }
}
