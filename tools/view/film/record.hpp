// Films of a scripted drag, drawn without a browser.
#pragma once

#include "../session/session.hpp"
#include "script.hpp"

#include <string>

namespace topograd::view {

/// Before the work: throws Error{InvalidArgument} for a path that does not end in .png or .mp4, and
/// Error{Unsupported} for .mp4 where the program ffmpeg is not found.
void check_film(const std::string& path);

/// Plays a script in a paused session, frame by frame, and writes an animated PNG, or an MP4 by
/// ffmpeg. The pictures depend on the script alone, not on the speed of the machine. Returns the
/// last frame.
///
/// Throws Error{InvalidArgument} for a subject without triangles or a session that runs,
/// Error{File}, Error{Unsupported} if ffmpeg fails, and Error{Internal} with the session's message
/// if a solve fails.
std::shared_ptr<const Frame> record(Session& session, const Script& script,
                                    const std::string& path);

}  // namespace topograd::view
