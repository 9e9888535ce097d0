# Converts the files of the module to C++: cmake -DOUTPUT=F -DSOURCE=DIR -P embed.cmake
file(WRITE ${OUTPUT}.new "// Generated from web by embed.cmake.\n"
     "#include <topograd/api/web_files.hpp>\n\nnamespace topograd::detail {\nnamespace {\n\n"
     "using std::string_view_literals::operator\"\"sv;\n\nconstexpr WebFile kFiles[] = {\n")
function(append_file path)
  file(READ ${SOURCE}/${path} text)
  get_filename_component(name ${path} NAME)
  # Compilers limit the length of one literal.
  string(LENGTH "${text}" length)
  file(APPEND ${OUTPUT}.new "    {\"${name}\", ")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 12000 part)
    file(APPEND ${OUTPUT}.new " R\"web(${part})web\"")
    math(EXPR at "${at} + 12000")
  endwhile()
  file(APPEND ${OUTPUT}.new "sv},\n")
endfunction()
foreach(module topograd.js model.js linear.js rules.js solver.js)
  append_file(${module})
endforeach()
append_file(topograd.d.ts)
append_file(package.json)
append_file(README.md)
file(APPEND ${OUTPUT}.new "};\n\n}  // namespace\n\n"
     "std::span<const WebFile> web_files() { return kFiles; }\n\n}  // namespace topograd::detail\n")
file(RENAME ${OUTPUT}.new ${OUTPUT})
