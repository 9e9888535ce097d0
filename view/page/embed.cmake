# Converts the files of the page to C++: cmake -DOUTPUT=F -DSOURCE=DIR -P embed.cmake
set(files index.html style.css app.js connection.js plots.js stage.js three.min.js)
file(WRITE ${OUTPUT}.new "// Generated from view/page by embed.cmake.\n"
     "#include <topograd/view/page/page.hpp>\n\nnamespace topograd::view {\nnamespace {\n\n"
     "using std::string_view_literals::operator\"\"sv;\n\nconstexpr PageFile kFiles[] = {\n")
foreach(name ${files})
  file(READ ${SOURCE}/${name} text)
  string(REGEX MATCH "[a-z]+$" ending ${name})
  set(path ${name})
  if(ending STREQUAL "html")
    set(path "")
  elseif(ending STREQUAL "js")
    set(ending javascript)
  endif()
  file(APPEND ${OUTPUT}.new
       "    {\"${path}\", \"text/${ending}; charset=utf-8\", R\"page(${text})page\"sv},\n")
endforeach()
file(APPEND ${OUTPUT}.new "};\n\n}  // namespace\n\n"
     "const PageFile* find_page_file(std::string_view path) {\n"
     "  for (const PageFile& file : kFiles)\n    if (file.path == path) return &file;\n"
     "  return nullptr;\n}\n\n}  // namespace topograd::view\n")
file(RENAME ${OUTPUT}.new ${OUTPUT})
