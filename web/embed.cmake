# Converts the files of the module and of the page to C++: cmake -DOUTPUT=F -DSOURCE=DIR -P embed.cmake
file(WRITE ${OUTPUT}.new "// Generated from web by embed.cmake.\n"
     "#include <topograd/api/web_files.hpp>\n\nnamespace topograd::detail {\nnamespace {\n\n"
     "using std::string_view_literals::operator\"\"sv;\n\nconstexpr WebFile kFiles[] = {\n")
function(append_file path part)
  file(READ ${SOURCE}/${path} text)
  get_filename_component(name ${path} NAME)
  # Compilers limit the length of one literal.
  string(LENGTH "${text}" length)
  file(APPEND ${OUTPUT}.new "    {\"${name}\", WebPart::${part}, ")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 12000 part)
    file(APPEND ${OUTPUT}.new " R\"web(${part})web\"")
    math(EXPR at "${at} + 12000")
  endwhile()
  file(APPEND ${OUTPUT}.new "sv},\n")
endfunction()
foreach(module topograd.js model.js linear.js rules.js solver.js energy.js descent.js eigen.js gpu.js wgsl.js
               curvature.js place.js topograd.d.ts package.json README.md)
  append_file(${module} module)
endforeach()
foreach(file float32.js steps.wgsl)
  append_file(f32/${file} f32)
endforeach()
foreach(file index.html page.css page.js)
  append_file(page/${file} page)
endforeach()
file(APPEND ${OUTPUT}.new "};\n\n}  // namespace\n\n"
     "std::span<const WebFile> web_files() { return kFiles; }\n\n}  // namespace topograd::detail\n")
file(RENAME ${OUTPUT}.new ${OUTPUT})
