// Item w of a list: a tile of 32 rows from r0 on and 32 columns from c0 on, and its front
// (runtime/factor/level_plan.hpp).
uint item = 2u * (first + w);
uint word = 10u * items[item];
uint r0 = 32u * (items[item + 1u] & 0xffffu);
uint c0 = 32u * (items[item + 1u] >> 16u);
uint panel = fronts[word];
uint pivots = fronts[word + 1u];
uint rows = pivots + fronts[word + 2u];
