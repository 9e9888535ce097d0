# Packages the library is built on; docs/requirements.md says what each is for.
# Installed as it is and read again by topogradConfig.cmake, so that both find the same things.
find_package(Threads REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(TBB REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(PkgConfig REQUIRED)
if(NOT TARGET PkgConfig::sleef)
  pkg_check_modules(sleef REQUIRED IMPORTED_TARGET sleef)
endif()

if(TOPOGRAD_VULKAN)
  find_package(VulkanHeaders MODULE REQUIRED)
  find_package(ShaderToolchain MODULE REQUIRED)
endif()
