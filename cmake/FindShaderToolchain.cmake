# Finds shaderc (static, with the glslang and SPIRV-Tools archives it needs) and SPIRV-Cross.
find_path(ShaderToolchain_SHADERC_INCLUDE shaderc/shaderc.hpp)
find_path(ShaderToolchain_CROSS_INCLUDE spirv_cross/spirv_cross_c.h)
find_library(ShaderToolchain_CROSS spirv-cross-c-shared)
# In link order; shaderc's own pkg-config file leaves out what glslang was split into.
set(_archives shaderc_combined glslang SPIRV SPIRV-Tools-opt SPIRV-Tools MachineIndependent
              GenericCodeGen OSDependent OGLCompiler HLSL)
set(_found)
foreach(_name ${_archives})
  find_library(ShaderToolchain_${_name} NAMES lib${_name}.a)
  list(APPEND _found ShaderToolchain_${_name})
endforeach()
mark_as_advanced(ShaderToolchain_SHADERC_INCLUDE ShaderToolchain_CROSS_INCLUDE
                 ShaderToolchain_CROSS ${_found})
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ShaderToolchain REQUIRED_VARS
  ShaderToolchain_SHADERC_INCLUDE ShaderToolchain_CROSS_INCLUDE ShaderToolchain_CROSS ${_found})
if(ShaderToolchain_FOUND AND NOT TARGET topograd_shaderc)
  add_library(topograd_shaderc INTERFACE IMPORTED)
  target_include_directories(topograd_shaderc SYSTEM INTERFACE ${ShaderToolchain_SHADERC_INCLUDE})
  foreach(_name ${_archives})
    target_link_libraries(topograd_shaderc INTERFACE ${ShaderToolchain_${_name}})
  endforeach()
  target_link_libraries(topograd_shaderc INTERFACE Threads::Threads)
  add_library(topograd_spirv_cross INTERFACE IMPORTED)
  target_include_directories(topograd_spirv_cross SYSTEM INTERFACE ${ShaderToolchain_CROSS_INCLUDE})
  target_link_libraries(topograd_spirv_cross INTERFACE ${ShaderToolchain_CROSS})
endif()
