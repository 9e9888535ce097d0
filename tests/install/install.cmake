# Installs BINARY_DIR and moves the result to PREFIX: an installation is relocatable.
file(REMOVE_RECURSE ${PREFIX} ${PREFIX}.moved)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BINARY_DIR} --prefix ${PREFIX}.moved
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${PREFIX}.moved ${PREFIX})
foreach(file include/topograd/ir/error.hpp share/doc/topograd/LICENSE share/doc/topograd/docs/index.md
        share/doc/topograd/samples/first.cpp)
  if(NOT EXISTS ${PREFIX}/${file})
    message(FATAL_ERROR "not installed: ${file}")
  endif()
endforeach()
file(GLOB_RECURSE strays RELATIVE ${PREFIX} ${PREFIX}/include/*.cpp ${PREFIX}/include/CMakeLists.txt)
if(strays)
  message(FATAL_ERROR "not headers: ${strays}")
endif()
