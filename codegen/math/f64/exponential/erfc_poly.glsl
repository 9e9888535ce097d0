// erfc(x) exp(x^2) as a function of z = (x - 3) / (x + 3), 1 <= x <= 6.
// Minimax polynomial (Remez).
double tg_erfc_poly_f64(double z) {
  precise double p = 8.45566132199298e-7lf;
  p = p * z + 8.759250612340325e-7lf;
  p = p * z - 9.275540077484569e-6lf;
  p = p * z - 1.3586114437925971e-5lf;
  p = p * z + 6.384364765587269e-5lf;
  p = p * z + 4.524474718413203e-5lf;
  p = p * z - 0.0005970455701503121lf;
  p = p * z + 0.0007077531276431901lf;
  p = p * z + 0.00426913760639372lf;
  p = p * z - 0.02439249919889689lf;
  p = p * z + 0.0716658371998751lf;
  p = p * z - 0.15011593650144262lf;
  p = p * z + 0.2456038017122764lf;
  p = p * z - 0.3262335600430384lf;
  p = p * z + 0.17900115118138996lf;
  return p;
}
