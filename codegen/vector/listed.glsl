//// add_in_order
// sum += terms[at + j * step] for j < size, one after the other; eight are read together.
uint j = 0u;
for (; j + 8u <= size; j += 8u) {
  uint t = at + j * step;
  SUM a = terms[t];
  SUM b = terms[t + step];
  SUM c = terms[t + 2u * step];
  SUM d = terms[t + 3u * step];
  SUM e = terms[t + 4u * step];
  SUM f = terms[t + 5u * step];
  SUM g = terms[t + 6u * step];
  SUM h = terms[t + 7u * step];
  sum = sum + a;
  sum = sum + b;
  sum = sum + c;
  sum = sum + d;
  sum = sum + e;
  sum = sum + f;
  sum = sum + g;
  sum = sum + h;
}
for (; j < size; ++j) sum = sum + terms[at + j * step];

//// listed_curvature
shared SUM terms[GROUP];

void main() {
  uint end = ends[2u * gl_WorkGroupID.x + 1u];
  precise SUM sum = SUM(0);
  for (uint base = ends[2u * gl_WorkGroupID.x]; base < end; base += GROUP) {
    uint k = base + gl_LocalInvocationIndex;
    if (k < end) {
      REAL p = direction[k];
      precise REAL q = product[k] + damping[k] * p;
      if (fixed_scalars[k] != 0u) q = REAL(0);
      product[k] = q;
      precise SUM term = SUM(p) * SUM(q);
      terms[gl_LocalInvocationIndex] = term;
    }
    barrier();
    uint size = min(GROUP, end - base);
    uint at = 0u;
    uint step = 1u;
    if (gl_LocalInvocationIndex == 0u) {
      #include add_in_order
    }
    barrier();
  }
  if (gl_LocalInvocationIndex == 0u) partials[gl_WorkGroupID.x] = sum;
}

//// listed_direction
void main() {
  GRID(k, count) {
    precise REAL p = preconditioned[k];
    if (overwrite == 0u) p = p + REAL(scalars[beta]) * direction[k];
    direction[k] = p;
    product[k] = REAL(0);
  }
}

//// listed_norms
// Invocation 0 adds up the squares, one of another subgroup the products.
shared SUM terms[2u * GROUP];

void main() {
  uint end = ends[2u * gl_WorkGroupID.x + 1u];
  uint lane = gl_LocalInvocationIndex;
  bool adds_products = lane == GROUP / 2u;
  precise SUM sum = SUM(0);
  for (uint base = ends[2u * gl_WorkGroupID.x]; base < end; base += GROUP) {
    if (base + lane < end) {
      SUM r = SUM(residual[base + lane]);
      precise SUM square = r * r;
      precise SUM product = r * SUM(preconditioned[base + lane]);
      terms[lane] = square;
      terms[GROUP + lane] = product;
    }
    barrier();
    uint size = min(GROUP, end - base);
    uint at = adds_products ? GROUP : 0u;
    uint step = 1u;
    if (lane == 0u || adds_products) {
      #include add_in_order
    }
    barrier();
  }
  if (lane == 0u) partials[gl_WorkGroupID.x] = sum;
  if (adds_products) partials[out_stride + gl_WorkGroupID.x] = sum;
}

//// listed_restrict
// Invocation f adds up what concerns vector f.
shared SUM terms[WIDTH * GROUP];

void main() {
  uint end = starts[gl_WorkGroupID.x + 1u];
  uint lane = gl_LocalInvocationIndex;
  precise SUM sum = SUM(0);
  for (uint base = starts[gl_WorkGroupID.x]; base < end; base += GROUP) {
    uint e = base + lane;
    if (e < end) {
      SUM r = SUM(residual[entries[e]]);
      #each precise SUM term_$ = SUM(vectors[$u * count + e]) * r;
      #each terms[lane * WIDTH + $u] = term_$;
    }
    barrier();
    uint size = min(GROUP, end - base);
    uint at = lane;
    uint step = WIDTH;
    if (lane < WIDTH) {
      #include add_in_order
    }
    barrier();
  }
  if (lane < WIDTH) partials[gl_WorkGroupID.x * WIDTH + lane] = sum;
}

//// listed_segments
void main() {
  GRID(t, count * WIDTH) {
    uint item = 3u * (t / WIDTH);
    uint c = t % WIDTH;
    precise REAL sum = REAL(0);
    for (uint s = items[item + 1u]; s < items[item + 2u]; ++s) sum = sum + segments[s * WIDTH + c];
    uint to = items[item] + c;
    sum = result[to] + sum;
    result[to] = sum;
  }
}

//// listed_product
// An instance's number is in a stored column, or in a row of J·p: then the column has bit 31.
REAL number(uint column, uint instance, uint instances) {
  if (column < 0x80000000u) return columns[column * instances + instance];
  return rows[(column - 0x80000000u) * instances + instance];
}

REAL listed_product(uint one, uint instance, uint instances) {
  uint left = products[2u * one];
  uint right = products[2u * one + 1u];
  precise REAL value = REAL(scales[one]);
  if (left != 0xffffffffu) value = value * number(left, instance, instances);
  if (right != 0xffffffffu) {
    REAL factor = number(right, instance, instances);
    value = factor == REAL(0) ? REAL(0) : value * factor;
  }
  return value;
}

//// listed_sums
#include listed_product

void main() {
  GRID(t, count * WIDTH) {
    uint item = 3u * (t / WIDTH);
    uint c = t % WIDTH;
    precise REAL sum = REAL(0);
    for (uint e = items[item + 1u]; e < items[item + 2u]; ++e) {
      uint instance = entries[e] >> slot_bits;
      uint at = slots[entries[e] & ((1u << slot_bits) - 1u)] + c;
      uint last = starts[at + 1u];
      for (uint one = starts[at]; one < last; ++one)
        sum = sum + listed_product(one, instance, instances);
    }
    uint to = items[item] + c;
    if (overwrite == 0u) sum = result[to] + sum;
    result[to] = sum;
  }
}

//// listed_sums_together
// Invocations compute the products, `most` at the utmost for each entry; invocation 0 adds them up.
// An entry with fewer has zeros, which change no sum that began as +0.
#include listed_product

const uint kTerms = 4u * max(GROUP, 16u);  // at least kMostProducts
shared SUM terms[kTerms];

void main() {
  uint lane = gl_LocalInvocationIndex;
  uint together = kTerms / most;
  for (uint t = gl_WorkGroupID.x; t < count * WIDTH; t += gl_NumWorkGroups.x) {
    uint item = 3u * (t / WIDTH);
    uint c = t % WIDTH;
    uint end = items[item + 2u];
    precise SUM sum = SUM(0);
    for (uint base = items[item + 1u]; base < end; base += together) {
      uint size = min(together, end - base) * most;
      for (uint k = lane; k < size; k += GROUP) {
        uint entry = entries[base + k / most];
        uint first = slots[entry & ((1u << slot_bits) - 1u)] + c;
        uint one = starts[first] + k % most;
        SUM term = SUM(0);
        if (one < starts[first + 1u]) term = SUM(listed_product(one, entry >> slot_bits, instances));
        terms[k] = term;
      }
      barrier();
      uint at = 0u;
      uint step = 1u;
      if (lane == 0u) {
        #include add_in_order
      }
      barrier();
    }
    if (lane == 0u) {
      uint to = items[item] + c;
      precise REAL total = REAL(sum);
      if (overwrite == 0u) total = result[to] + total;
      result[to] = total;
    }
  }
}

//// listed_update
void main() {
  GRID(b, count) {
    uint k = first + b * WIDTH;
    #each precise REAL r_$ = residual[k + $u];
    if (overwrite == 0u) {
      REAL factor = REAL(scalars[alpha]);
      #each precise REAL x_$ = delta[k + $u] + factor * direction[k + $u];
      #each delta[k + $u] = x_$;
      #each r_$ = r_$ - factor * product[k + $u];
      #each residual[k + $u] = r_$;
    } else {
      #each delta[k + $u] = REAL(0);
    }
    apply_inverse();
    #each preconditioned[k + $u] = z_$;
  }
}
