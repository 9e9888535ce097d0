# Converts the GLSL functions of this folder to one C++ table, and to C++ functions that glsl_as_cpp.hpp makes
# compile: cmake -DOUTPUT=F -DFUNCTIONS=F -DSOURCE=DIR -P embed.cmake
#
# A file has the functions of a subject and the constants that they need. "//// NAME f64" and "//// NAME f32"
# begin the text for one precision, "//// NAME" a text that serves both: REAL, REAL2, REAL3 become double and
# dvec or float and vec, _PREC at the end of a name becomes _f64 or _f32, and _r after a digit becomes the
# suffix of a literal. "// needs: a b" names what a function uses; these lines are left out.
include(${CMAKE_CURRENT_LIST_DIR}/../sections.cmake)

function(specialise text bits type vector literal out)
  string(REPLACE "REAL3" "${vector}3" text "${text}")
  string(REPLACE "REAL2" "${vector}2" text "${text}")
  string(REPLACE "REAL" "${type}" text "${text}")
  string(REPLACE "_PREC" "_f${bits}" text "${text}")
  string(REGEX REPLACE "([0-9][.][0-9]+)_r" "\\1${literal}" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(append_row bits name text)
  string(REGEX MATCHALL "// needs: [^\n]*" needs "${text}")
  string(REGEX REPLACE "// needs: [^\n]*\n" "" text "${text}")
  string(REPLACE "// needs: " "" needs "${needs}")
  string(REPLACE ";" " " needs "${needs}")
  file(APPEND ${OUTPUT}.new
       "    {\"${name}\", Precision::f${bits}, \"${needs}\", R\"glsl(${text})glsl\"},\n")
  # C++ has no suffix for doubles.
  string(REGEX REPLACE "([0-9])lf([^a-z0-9_])" "\\1\\2" text "${text}")
  set_property(GLOBAL PROPERTY text_${bits}_${name} "${text}")
  set_property(GLOBAL PROPERTY needs_${bits}_${name} "${needs}")
  set_property(GLOBAL APPEND PROPERTY names_${bits} ${name})
endfunction()

# Appends a function to FUNCTIONS after those that it needs.
function(append_function bits name)
  get_property(done GLOBAL PROPERTY done_${bits}_${name})
  if(done)
    return()
  endif()
  set_property(GLOBAL PROPERTY done_${bits}_${name} ON)
  get_property(needs GLOBAL PROPERTY needs_${bits}_${name})
  string(REPLACE " " ";" needs "${needs}")
  foreach(need ${needs})
    append_function(${bits} ${need})
  endforeach()
  get_property(text GLOBAL PROPERTY text_${bits}_${name})
  file(APPEND ${FUNCTIONS}.new "\n${text}")
  # Without the reduction of far angles, which compilers cannot make vector code of.
  if(text MATCHES "= tg_trig_reduce_f")
    string(REPLACE "tg_trig_reduce_f" "tg_trig_reduce_near_f" text "${text}")
    string(REPLACE "tg_${name}_f" "tg_${name}_near_f" text "${text}")
    file(APPEND ${FUNCTIONS}.new "\n${text}")
  endif()
endfunction()

# `title` is what follows "//// ".
function(append_section title text)
  if(title MATCHES "^(.*) f(64|32)$")
    append_row(${CMAKE_MATCH_2} ${CMAKE_MATCH_1} "${text}")
    return()
  endif()
  specialise("${text}" 64 double dvec lf of_f64)
  specialise("${text}" 32 float vec f of_f32)
  append_row(64 ${title} "${of_f64}")
  append_row(32 ${title} "${of_f32}")
endfunction()

file(WRITE ${OUTPUT}.new "// Generated from codegen/math by embed.cmake.\n"
     "#include <topograd/codegen/math/library.hpp>\n\n"
     "namespace topograd::codegen::math {\n\nnamespace {\n\nconstexpr Snippet kTable[] = {\n")
foreach(subject arithmetic exponential trigonometric)
  for_each_section(${SOURCE}/${subject}.glsl)
endforeach()
file(READ ${SOURCE}/float64.glsl float64)
file(READ ${SOURCE}/float64_main.glsl main)
file(APPEND ${OUTPUT}.new "};\n\n}  // namespace\n\n"
     "std::span<const Snippet> snippets() { return kTable; }\n\n"
     "std::string_view emulated_float64() {\n  return R\"glsl(${float64}${main})glsl\";\n}\n\n"
     "}  // namespace topograd::codegen::math\n")
file(RENAME ${OUTPUT}.new ${OUTPUT})

file(WRITE ${FUNCTIONS}.new "// Generated from codegen/math by embed.cmake.\n#define precise\n#define out\n")
foreach(bits 64 32)
  get_property(names GLOBAL PROPERTY names_${bits})
  foreach(name ${names})
    append_function(${bits} ${name})
  endforeach()
endforeach()
file(APPEND ${FUNCTIONS}.new "\n#undef precise\n#undef out\n")
file(RENAME ${FUNCTIONS}.new ${FUNCTIONS})
