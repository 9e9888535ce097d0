// The Ceres version whose interface this library follows.
#pragma once

#define CERES_VERSION_MAJOR 2
#define CERES_VERSION_MINOR 2
#define CERES_VERSION_REVISION 0
#define CERES_VERSION_STRING "2.2.0-topograd"
