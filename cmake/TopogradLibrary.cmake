# One library per folder: topograd_library(ir PUBLIC_HEADERS a.hpp SOURCES a.cpp DEPENDS ... PRIVATE_DEPENDS ...).
# Public headers are what programs include, and what these include; they alone are installed.
include(GNUInstallDirs)
include(TopogradUnity)

# Headers are included as <topograd/FOLDER/FILE.hpp>: the build tree holds links that spell it so.
set(TOPOGRAD_INCLUDE_ROOT ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${TOPOGRAD_INCLUDE_ROOT}/topograd)

# Headers of api/ that users include without the folder's name: <topograd/topograd.hpp>.
set(TOPOGRAD_FRONT_HEADERS all.hpp ceres.hpp topograd.hpp)
foreach(_header ${TOPOGRAD_FRONT_HEADERS})
  file(CONFIGURE OUTPUT ${TOPOGRAD_INCLUDE_ROOT}/topograd/${_header} CONTENT
       "// The short spelling of <topograd/api/${_header}>.\n#pragma once\n\n#include <topograd/api/${_header}>\n")
endforeach()

# Sets the language level, warnings and arithmetic rules that every target of the project shares.
function(topograd_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  # Contraction happens only through the fma op.
  target_compile_options(${target} PRIVATE -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow
                                           -Wswitch -Werror=switch -Wno-missing-field-initializers)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    # Nor by Eigen's own intrinsics, which join multiplications with additions where this is defined.
    target_compile_options(${target} PRIVATE -U__ARM_FEATURE_FMA)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC bug 105651: std::string concatenation is taken for overlapping copies.
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(TOPOGRAD_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(TOPOGRAD_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${TOPOGRAD_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # GCC's flow warnings take the checks' branches for the program's own.
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${TOPOGRAD_SANITIZE})
  endif()
endfunction()

# For code that runs once a command, and reads, prints or arranges: a release compiles it in three quarters of the time.
function(topograd_seldom_runs target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

function(topograd_link_headers folder)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${TOPOGRAD_INCLUDE_ROOT}/topograd/${folder} SYMBOLIC)
endfunction()

function(topograd_library name)
  cmake_parse_arguments(ARG "" "" "PUBLIC_HEADERS;SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  set(target topograd_${name})
  add_library(${target} ${TOPOGRAD_LIBRARY_TYPE} ${ARG_SOURCES})
  add_library(topograd::${name} ALIAS ${target})
  # No symbol of its own for shared builds: both kinds are made of the same object files.
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} DEFINE_SYMBOL "")
  topograd_target_defaults(${target})
  topograd_unity(${target})
  topograd_link_headers(${name})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${TOPOGRAD_INCLUDE_ROOT}>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  set_property(GLOBAL APPEND PROPERTY TOPOGRAD_LIBRARIES ${target})
  list(TRANSFORM ARG_PUBLIC_HEADERS PREPEND ${name}/)
  set_property(GLOBAL APPEND PROPERTY TOPOGRAD_PUBLIC_HEADERS ${ARG_PUBLIC_HEADERS})
endfunction()
