# Turns the .glsl files of kernels into one C++ table: cmake -DOUTPUT=F -DSOURCE=DIR -P embed.cmake

file(GLOB_RECURSE files ${SOURCE}/*.glsl)
list(SORT files)
file(WRITE ${OUTPUT}.new "// Generated from ops by embed.cmake.\n"
     "#include <topograd/ops/backend/kernel_store.hpp>\n\n"
     "std::span<const topograd::ops::EmbeddedFile> topograd::ops::embedded_files() {\n"
     "  static constexpr EmbeddedFile kFiles[] = {\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  file(APPEND ${OUTPUT}.new "    {\"${name}\", R\"glsl(${text})glsl\"},\n")
endforeach()
file(APPEND ${OUTPUT}.new "  };\n  return kFiles;\n}\n")
file(RENAME ${OUTPUT}.new ${OUTPUT})
