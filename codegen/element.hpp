// Type of the numbers in a buffer.
#pragma once

namespace topograd::codegen {

enum class Element { f32, f64, i32, u32, i64, u64, other };

/// "float", "double", "int", "uint", "int64_t", "uint64_t", "other".
const char* name(Element element);

}  // namespace topograd::codegen
