// Films of a scripted drag, drawn without a browser.
#pragma once

#include "../../../view/live/live_solver.hpp"
#include "script.hpp"

#include <string>

namespace topograd::view {

/// Before the work: throws Error{InvalidArgument} for a path that does not end in .png or .mp4, and
/// Error{Unsupported} for .mp4 where the program ffmpeg is not found.
void check_film(const std::string& path);

/// Plays a script in a paused live solver, frame by frame, and writes an animated PNG, or an MP4 by
/// ffmpeg. A subject without triangles is drawn by its points and lines. The pictures depend on the
/// script alone, not on the speed of the machine. Returns the last frame.
///
/// Throws Error{InvalidArgument} for a live solver that runs, Error{File}, Error{Unsupported} if
/// ffmpeg fails, and Error{Internal} with the live solver's message if a solve fails.
std::shared_ptr<const Frame> record(LiveSolver& live, const Script& script,
                                    const std::string& path);

}  // namespace topograd::view
