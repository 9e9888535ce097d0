// Looks for a lower cost beside a point whose columns have vanished: at the zero of a square, and at a kink.

/** Share of the cost by which a step changes it, the exponent of the longest one, and most unknowns. */
const share = 1e-4, longest = 1000, mostUnknowns = 8;
/** Lengths that are tried, in units of the one that changes the cost, as exponents. */
const lengths = [12, 9, 6, 3, 0, -2, -4, -7, -10];

/** Each unknown by itself, and all of them with equal and with alternating signs. */
function directionsOf(unknowns) {
  const single = unknowns.slice(0, mostUnknowns).map((k) => [[k, 1]]);
  if (unknowns.length === 1) return single;
  return [...single, unknowns.map((k) => [k, 1]), unknowns.map((k, i) => [k, 1 - 2 * (i % 2)])];
}

/**
 * The best step, or undefined where none gains as much as `least`. Steps are as long as it takes to change
 * the cost by a share of it, so that units decide nothing.
 *
 * @param unknowns numbers of scalars
 * @param costAt of a direction, which is a list of scalars and factors, and a length
 */
export async function stepBeside(unknowns, cost, least, costAt) {
  let best, gain = least;
  const changes = (there) => !(Math.abs(there - cost) <= share * cost);
  for (const direction of directionsOf(unknowns))
    for (const sign of [1, -1]) {
      const at = (exponent) => costAt(direction, sign * 2 ** exponent);
      let low = -longest, high = longest;
      if (!changes(await at(high))) continue;
      while (high - low > 1) {
        const middle = Math.trunc((low + high) / 2);
        if (changes(await at(middle))) high = middle;
        else low = middle;
      }
      for (const more of lengths) {
        const gained = cost - await at(high + more);
        if (gained > gain) [gain, best] = [gained, { direction, length: sign * 2 ** (high + more) }];
      }
    }
  return best;
}
