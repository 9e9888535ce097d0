# Installs headers, libraries, the CMake package, the pkg-config files, the manual and the samples.
include(CMakePackageConfigHelpers)
include(TopogradPkgConfig)

get_property(_libraries GLOBAL PROPERTY TOPOGRAD_LIBRARIES)
set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/topograd)

get_property(_headers GLOBAL PROPERTY TOPOGRAD_PUBLIC_HEADERS)
foreach(_header ${_headers})
  cmake_path(GET _header PARENT_PATH _folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${_header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/topograd/${_folder})
endforeach()
foreach(_header ${TOPOGRAD_FRONT_HEADERS})
  install(FILES ${TOPOGRAD_INCLUDE_ROOT}/topograd/${_header}
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/topograd)
endforeach()

install(DIRECTORY ${TOPOGRAD_CERES_SHIMS}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/topograd-ceres)

install(TARGETS ${_libraries} topograd_ceres topograd_umbrella EXPORT topogradTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Shared libraries and the command find each other wherever the prefix is.
file(RELATIVE_PATH _from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(${_libraries} topograd_ceres PROPERTIES INSTALL_RPATH "$ORIGIN")
if(TARGET topograd)
  if(TOPOGRAD_LIBRARY_TYPE STREQUAL "SHARED")
    set_target_properties(topograd PROPERTIES INSTALL_RPATH "$ORIGIN/${_from_bin}")
  endif()
  install(TARGETS topograd RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # Not there where the command alone was built.
  set(_texts ${PROJECT_BINARY_DIR}/tools/command)
  install(FILES ${_texts}/topograd.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
  install(FILES ${_texts}/topograd.bash DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions
          RENAME topograd OPTIONAL)
  install(FILES ${_texts}/_topograd DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/site-functions OPTIONAL)
endif()
install(EXPORT topogradTargets NAMESPACE topograd:: DESTINATION ${_package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/topogradConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/topogradConfig.cmake
                              INSTALL_DESTINATION ${_package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/topogradConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/topogradConfig.cmake
              ${PROJECT_BINARY_DIR}/topogradConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/TopogradDependencies.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindVulkanHeaders.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindShaderToolchain.cmake
        DESTINATION ${_package_dir})

# The live view is a package of its own, so that programs without it need no libwebsockets.
list(REMOVE_ITEM _libraries topograd_view)
topograd_write_pkg_config(${PROJECT_BINARY_DIR}/topograd.pc ${_libraries})
set(_packages ${PROJECT_BINARY_DIR}/topograd.pc)
foreach(_name topograd-ceres topograd-view)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${_name}.pc.in ${PROJECT_BINARY_DIR}/${_name}.pc @ONLY)
  list(APPEND _packages ${PROJECT_BINARY_DIR}/${_name}.pc)
endforeach()
install(FILES ${_packages}
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# The manual as text, and the samples as a project of their own; links between them hold.
set(_doc ${CMAKE_INSTALL_DATAROOTDIR}/doc/topograd)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE ${PROJECT_SOURCE_DIR}/README.md
        DESTINATION ${_doc})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${_doc}
        PATTERN Doxyfile EXCLUDE PATTERN conf.py EXCLUDE PATTERN _static EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/samples DESTINATION ${_doc})
