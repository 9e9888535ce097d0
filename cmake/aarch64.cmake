# Builds for Linux on aarch64 with Debian's cross compiler, against packages that scripts/sysroot has unpacked; qemu runs the results.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# GCC says here how versions before 10 passed pairs.
set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)

# Another folder: -DTOPOGRAD_SYSROOT=..., which the compiler's tests are told, too.
set(TOPOGRAD_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build-arm64-sysroot CACHE PATH "Packages of aarch64 (scripts/sysroot)")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TOPOGRAD_SYSROOT)
cmake_path(NORMAL_PATH TOPOGRAD_SYSROOT OUTPUT_VARIABLE CMAKE_SYSROOT)

set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
    ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_PATH})

find_program(TOPOGRAD_QEMU NAMES qemu-aarch64-static qemu-aarch64 REQUIRED)
mark_as_advanced(TOPOGRAD_QEMU)
set(CMAKE_CROSSCOMPILING_EMULATOR ${TOPOGRAD_QEMU} -L ${CMAKE_SYSROOT})

# Python of the same packages, in the emulator: it knows where its headers are and what modules are called, and runs the tests.
set(Python_EXECUTABLE ${CMAKE_BINARY_DIR}/python-aarch64)
if(NOT EXISTS ${Python_EXECUTABLE})
  list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " _emulator)
  file(CONFIGURE OUTPUT ${Python_EXECUTABLE} CONTENT
       "#!/bin/sh\nexec ${_emulator} ${CMAKE_SYSROOT}/usr/bin/python3 \"$@\"\n" @ONLY NEWLINE_STYLE UNIX)
  file(CHMOD ${Python_EXECUTABLE} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endif()
file(GLOB Python_INCLUDE_DIR ${CMAKE_SYSROOT}/usr/include/python3.*)
