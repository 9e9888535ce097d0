// project_blocks_f64: symmetric matrices without their negative eigenvalues
//
// form        one matrix an invocation, f64, 128 invocations a workgroup
#version 450

layout(local_size_x = 128) in;

layout(push_constant) uniform PushConstants {
  uint count;      // end of the matrices of this dispatch
  uint first;      // matrix of invocation 0
  uint stride;     // matrices in the buffers
  uint width;      // rows of a matrix
  uint phase;      // 0: prepare, 1: rotate, 2: subtract
  uint row_first;  // rows of this dispatch
  uint row_end;    // end of them
};

layout(std430, binding = 0) restrict buffer BlocksBuffer { double blocks[]; };
layout(std430, binding = 1) restrict buffer RotatedBuffer { double rotated[]; };
layout(std430, binding = 2) restrict buffer EigenvectorsBuffer { double eigenvectors[]; };

// Place of entry (i, j) in the packed triangle of matrix m.
uint packed_place(uint m, uint i, uint j) {
  uint row = min(i, j);
  uint column = max(i, j);
  return (row * (2u * width - row + 1u) / 2u + column - row) * stride + m;
}

// Turns the plane of p and q so that entry (p, q) of matrix m becomes 0.
void rotate(uint m, uint p, uint q) {
  double off_diagonal = rotated[packed_place(m, p, q)];
  double a = rotated[packed_place(m, p, p)];
  double b = rotated[packed_place(m, q, q)];
  precise double cotangent = (b - a) / (double(2) * off_diagonal);
  precise double size = abs(cotangent) + sqrt(cotangent * cotangent + double(1));
  precise double t = (cotangent < double(0) ? double(-1) : double(1)) / size;
  precise double c = double(1) / sqrt(t * t + double(1));
  precise double s = t * c;
  precise double change = t * off_diagonal;
  precise double first_value = a - change;
  precise double second_value = b + change;
  rotated[packed_place(m, p, p)] = first_value;
  rotated[packed_place(m, q, q)] = second_value;
  rotated[packed_place(m, p, q)] = double(0);
  for (uint k = 0u; k < width; ++k) {
    if (k != p && k != q) {
      double u = rotated[packed_place(m, k, p)];
      double v = rotated[packed_place(m, k, q)];
      precise double first_entry = c * u - s * v;
      precise double second_entry = s * u + c * v;
      rotated[packed_place(m, k, p)] = first_entry;
      rotated[packed_place(m, k, q)] = second_entry;
    }
    double u = eigenvectors[(k * width + p) * stride + m];
    double v = eigenvectors[(k * width + q) * stride + m];
    precise double first_entry = c * u - s * v;
    precise double second_entry = s * u + c * v;
    eigenvectors[(k * width + p) * stride + m] = first_entry;
    eigenvectors[(k * width + q) * stride + m] = second_entry;
  }
}

void main() {
  uint m = gl_GlobalInvocationID.x + first;
  if (m >= count) return;
  uint entries = width * (width + 1u) / 2u;
  double greatest = double(0);
  bool finite = true;
  for (uint k = 0u; k < entries; ++k) {
    double value = blocks[k * stride + m];
    precise double difference = value - value;
    finite = finite && difference == double(0);
    greatest = max(greatest, abs(value));
  }

  if (phase == 0u) {
    for (uint k = 0u; k < entries; ++k) {
      rotated[k * stride + m] = finite ? blocks[k * stride + m] : double(0);
    }
    for (uint k = 0u; k < width * width; ++k) {
      eigenvectors[k * stride + m] = k % (width + 1u) == 0u ? double(1) : double(0);
    }
  } else if (phase == 1u) {
    precise double negligible = greatest * 1.1102230246251565e-16lf;
    for (uint p = row_first; p < row_end; ++p) {
      for (uint q = p + 1u; q < width; ++q) {
        if (abs(rotated[packed_place(m, p, q)]) > negligible) rotate(m, p, q);
      }
    }
  } else {
    for (uint k = row_first; k < row_end; ++k) {
      double eigenvalue = rotated[packed_place(m, k, k)];
      if (eigenvalue < double(0)) {
        for (uint i = 0u; i < width; ++i) {
          precise double scaled = eigenvalue * eigenvectors[(i * width + k) * stride + m];
          for (uint j = i; j < width; ++j) {
            uint place = packed_place(m, i, j);
            precise double part = scaled * eigenvectors[(j * width + k) * stride + m];
            precise double kept = blocks[place] - part;
            blocks[place] = kept;
          }
        }
      }
    }
  }
}
