# Converts the files of the module and of the page to C++: cmake -DOUTPUT=F -DSOURCE=DIR -DCOMPILED=DIR -P embed.cmake
# Without COMPILED, in a build without TypeScript's compiler, there are no files.
if(NOT COMPILED)
  file(WRITE ${OUTPUT} "// Generated from web by embed.cmake.\n"
       "#include <topograd/api/web_files.hpp>\n\nnamespace topograd::detail {\n\n"
       "std::span<const WebFile> web_files() { return {}; }\n\n}  // namespace topograd::detail\n")
  return()
endif()
file(WRITE ${OUTPUT}.new "// Generated from web by embed.cmake.\n"
     "#include <topograd/api/web_files.hpp>\n\nnamespace topograd::detail {\nnamespace {\n\n"
     "using std::string_view_literals::operator\"\"sv;\n\nconstexpr WebFile kFiles[] = {\n")
function(append_file path part)
  file(READ ${path} text)
  get_filename_component(name ${path} NAME)
  if(name MATCHES "[.]test[.]js$")
    set(name test/${name})
  endif()
  if(name STREQUAL package.json)  # it lies beside the module, which is compiled
    string(REPLACE "/dist/" "/" text "${text}")
    string(REGEX REPLACE "\n    \"(build|prepack|pretest)\": [^\n]*" "" text "${text}")
  endif()
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
               curvature.js place.js topograd.d.ts)
  append_file(${COMPILED}/${module} module)
endforeach()
foreach(file package.json README.md test/package.test.js)
  append_file(${SOURCE}/${file} module)
endforeach()
append_file(${COMPILED}/f32/float32.js f32)
append_file(${SOURCE}/f32/steps.wgsl f32)
append_file(${SOURCE}/page/index.html page)
append_file(${SOURCE}/page/page.css page)
append_file(${COMPILED}/page/page.js page)
file(APPEND ${OUTPUT}.new "};\n\n}  // namespace\n\n"
     "std::span<const WebFile> web_files() { return kFiles; }\n\n}  // namespace topograd::detail\n")
file(RENAME ${OUTPUT}.new ${OUTPUT})
