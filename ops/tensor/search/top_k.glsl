// The k largest entries of pieces of rows, in the order of before(): NaN, then larger numbers, then smaller indices.

{is_nan}
bool before({T} a, uint i, {T} b, uint j) {
  if (is_nan(a) != is_nan(b)) return is_nan(a);
  if (!is_nan(a) && a != b) return a > b;
  return i < j;
}
shared {T} bests[256];
shared uint best_places[256];

void main() {
  uint self = gl_LocalInvocationID.x;
  uint number = linear_group();
  if (number >= rows * pieces) return;
  uint row = number / pieces, begin = number % pieces * segment;
  uint end = min(depth, begin + segment);
  {T} last = {T}(0.0);
  uint last_place = ~0u;
  for (uint found = 0u; found < k; ++found) {
    {T} best = {T}(0.0);
    uint place = ~0u;
    for (uint i = begin + self; i < end; i += 256u) {
      {T} value = source(row * depth + i);
      uint at = i;
      if (carried != 0u) {
        {T} from = places(row * depth + i);
        if (from < {T}(0.0)) continue;
        at = uint(from);
      }
      if (found > 0u && !before(last, last_place, value, at)) continue;
      if (place == ~0u || before(value, at, best, place)) {
        best = value;
        place = at;
      }
    }
    barrier();
    bests[self] = best;
    best_places[self] = place;
    for (uint width = 128u; width > 0u; width >>= 1u) {
      barrier();
      if (self < width) {
        {T} other = bests[self + width];
        uint other_place = best_places[self + width];
        if (other_place != ~0u &&
            (place == ~0u || before(other, other_place, best, place))) {
          best = other;
          place = other_place;
        }
        bests[self] = best;
        best_places[self] = place;
      }
    }
    barrier();
    last = bests[0];
    last_place = best_places[0];
    if (self == 0u) {
      values(number * k + found) = last;
      indices(number * k + found) = last_place == ~0u ? {T}(-1.0) : {T}(last_place);
    }
    if (last_place == ~0u) {  // none is left, for all invocations alike
      for (uint rest = found + 1u + self; rest < k; rest += 256u) {
        values(number * k + rest) = {T}(0.0);
        indices(number * k + rest) = {T}(-1.0);
      }
      return;
    }
  }
}
