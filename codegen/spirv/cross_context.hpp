// A SPIRV-Cross context with one parsed module.
#pragma once

#include <spirv_cross/spirv_cross_c.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include "../../ir/error.hpp"
#include "edit_modules.hpp"

namespace topograd::codegen {

/// A parsed module and a compiler for one back end; not a public header.
class CrossContext {
 public:
  /// Throws Error{InvalidArgument} with SPIRV-Cross' reason, after `caller`.
  CrossContext(std::span<const std::uint32_t> module, spvc_backend backend, std::string caller)
      : caller_(std::move(caller)) {
    if (!looks_like_spirv(module)) {
      throw Error(ErrorCode::InvalidArgument, caller_ + ": expected a SPIR-V module, got " +
                                                  std::to_string(module.size()) +
                                                  " words that are none");
    }
    spvc_context context = nullptr;
    if (spvc_context_create(&context) != SPVC_SUCCESS) {
      throw Error(ErrorCode::OutOfHostMemory, caller_ + ": no memory for SPIRV-Cross");
    }
    context_.reset(context);
    spvc_parsed_ir ir = nullptr;
    expect(spvc_context_parse_spirv(context, module.data(), module.size(), &ir));
    expect(spvc_context_create_compiler(context, backend, ir, SPVC_CAPTURE_MODE_TAKE_OWNERSHIP,
                                        &compiler_));
  }

  spvc_compiler compiler() const { return compiler_; }
  std::string last_error() const { return spvc_context_get_last_error_string(context_.get()); }

  /// Throws Error{InvalidArgument} unless `result` is success.
  void expect(spvc_result result) const {
    if (result != SPVC_SUCCESS) {
      throw Error(ErrorCode::InvalidArgument,
                  caller_ + ": SPIRV-Cross cannot read this module: " + last_error());
    }
  }

 private:
  struct Destroy {
    void operator()(spvc_context context) const { spvc_context_destroy(context); }
  };
  std::string caller_;
  std::unique_ptr<spvc_context_s, Destroy> context_;
  spvc_compiler compiler_ = nullptr;
};

}  // namespace topograd::codegen
