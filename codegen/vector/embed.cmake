# Turns the .glsl files of vector kernels into one C++ table: cmake -DOUTPUT=F -DSOURCE=DIR -P embed.cmake

file(WRITE ${OUTPUT}.new "// Generated from codegen/vector by embed.cmake.\n"
     "#include <topograd/codegen/vector/table.hpp>\n\n"
     "namespace topograd::codegen {\n\nnamespace {\n\nconstexpr SourceFile kFiles[] = {\n")
file(GLOB_RECURSE files ${SOURCE}/*.glsl)
list(SORT files)
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  file(APPEND ${OUTPUT}.new "    {\"${name}\", R\"glsl(${text})glsl\"},\n")
endforeach()
file(APPEND ${OUTPUT}.new "};\n\n}  // namespace\n\n"
     "std::span<const SourceFile> source_files() { return kFiles; }\n\n"
     "}  // namespace topograd::codegen\n")
file(RENAME ${OUTPUT}.new ${OUTPUT})
