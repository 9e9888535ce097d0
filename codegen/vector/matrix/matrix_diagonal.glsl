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
