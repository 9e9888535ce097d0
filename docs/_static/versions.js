// The versions of the manual that a site has: scripts/site replaces this file in each of them.
const manualVersions = [];
