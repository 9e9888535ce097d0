# Converts the GLSL snippets of this folder to one C++ table: cmake -DOUTPUT=F -DSOURCE=DIR -P embed.cmake
#
# A file NAME.glsl in common/ serves both precisions: REAL, REAL2, REAL3 become double and dvec or
# float and vec, _PREC at the end of a name becomes _f64 or _f32, and _r after a digit becomes the
# suffix of a literal. Files in f64/ and f32/ are copied. "// needs: a b" names the snippets that a
# snippet uses; these lines are left out.

function(specialise text bits type vector literal out)
  string(REPLACE "REAL3" "${vector}3" text "${text}")
  string(REPLACE "REAL2" "${vector}2" text "${text}")
  string(REPLACE "REAL" "${type}" text "${text}")
  string(REPLACE "_PREC" "_f${bits}" text "${text}")
  string(REGEX REPLACE "([0-9][.][0-9]+)_r" "\\1${literal}" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(append_row bits folder file)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(REGEX MATCHALL "// needs: [^\n]*" needs "${text}")
  string(REGEX REPLACE "// needs: [^\n]*\n" "" text "${text}")
  string(REPLACE "// needs: " "" needs "${needs}")
  string(REPLACE ";" " " needs "${needs}")
  if(folder STREQUAL "common" AND bits EQUAL 64)
    specialise("${text}" 64 double dvec lf text)
  elseif(folder STREQUAL "common")
    specialise("${text}" 32 float vec f text)
  endif()
  file(APPEND ${OUTPUT}.new
       "    {\"${name}\", Precision::f${bits}, \"${needs}\", R\"glsl(${text})glsl\"},\n")
endfunction()

file(WRITE ${OUTPUT}.new "// Generated from codegen/math by embed.cmake.\n"
     "#include <topograd/codegen/math/snippets.hpp>\n\n"
     "namespace topograd::codegen::math {\n\nnamespace {\n\nconstexpr Snippet kTable[] = {\n")
foreach(bits 64 32)
  foreach(folder common f${bits})
    file(GLOB_RECURSE files ${SOURCE}/${folder}/*.glsl)
    list(SORT files)
    foreach(file ${files})
      append_row(${bits} ${folder} ${file})
    endforeach()
  endforeach()
endforeach()
file(READ ${SOURCE}/emulated/float64.glsl float64)
file(READ ${SOURCE}/emulated/main.glsl main)
file(APPEND ${OUTPUT}.new "};\n\n}  // namespace\n\n"
     "std::span<const Snippet> snippets() { return kTable; }\n\n"
     "std::string_view emulated_float64() {\n  return R\"glsl(${float64})glsl\" R\"glsl(${main})glsl\";\n}\n\n"
     "}  // namespace topograd::codegen::math\n")
file(RENAME ${OUTPUT}.new ${OUTPUT})
