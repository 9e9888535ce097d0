# Headers that many programs include, compiled once for all of them.

# topograd_precompiled(target <header> ...): programs take them by target_precompile_headers(program REUSE_FROM target),
# and must have its compile options. What the headers need is linked to the target.
function(topograd_precompiled target)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp CONTENT "// Has no code: its headers are compiled.\n")
  add_library(${target} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp)
  topograd_target_defaults(${target})
  # As position-independent as a program, not as a library.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIE)
  target_precompile_headers(${target} PRIVATE ${ARGN})
endfunction()
