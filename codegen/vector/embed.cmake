# Turns the sources of vector kernels into one C++ table: cmake -DOUTPUT=F -DSOURCE=DIR -P embed.cmake
#
# A file has the sources of a subject; "//// NAME" begins that of a kernel or of a piece of kernels.
include(${CMAKE_CURRENT_LIST_DIR}/../sections.cmake)

function(append_section name text)
  file(APPEND ${OUTPUT}.new "    {\"${name}\", R\"glsl(${text})glsl\"},\n")
endfunction()

file(WRITE ${OUTPUT}.new "// Generated from codegen/vector by embed.cmake.\n"
     "#include <topograd/codegen/vector/source.hpp>\n\n"
     "namespace topograd::codegen {\n\nnamespace {\n\nconstexpr SourceText kTexts[] = {\n")
file(GLOB files ${SOURCE}/*.glsl)
list(SORT files)
foreach(file ${files})
  for_each_section(${file})
endforeach()
file(APPEND ${OUTPUT}.new "};\n\n}  // namespace\n\n"
     "std::span<const SourceText> source_texts() { return kTexts; }\n\n"
     "}  // namespace topograd::codegen\n")
file(RENAME ${OUTPUT}.new ${OUTPUT})
