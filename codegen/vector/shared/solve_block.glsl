// The residual of fixed scalars is 0, so that their direction stays 0.
if (masked != 0u) {
  #each if (fixed_scalars[k + $u] != 0u) r_$ = REAL(0);
}
#if unpreconditioned
#each REAL z_$ = r_$;
#else
apply_inverse();
#end
