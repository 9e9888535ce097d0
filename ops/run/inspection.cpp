// Comparison of both sides of an operation, and its values as text.
#include "inspection.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace topograd::ops {
namespace {

using runtime::hybrid::Element;

// In storages that were never written.
constexpr std::byte kUnwritten{0xa5};

thread_local Inspection of_thread;

Element element_of(Type type) {
  switch (type) {
    case Type::f16: return Element::f16;
    case Type::f32: return Element::f32;
    case Type::f64: return Element::f64;
    case Type::i32: return Element::i32;
    case Type::u32: break;
  }
  return Element::u32;
}

Element element_of(const Storage& storage) {
  return storage.elements() ? element_of(storage.elements()->type) : Element::bits;
}

std::uint64_t bytes_of(const Storage& storage) {
  const auto& elements = storage.elements();
  return elements ? elements->count * size_of(elements->type) : storage.bytes();
}

std::vector<std::byte> contents(Storage& storage) {
  const std::byte* const first = storage.read_host();
  return {first, first + bytes_of(storage)};
}

void write(Storage& storage, const std::vector<std::byte>& bytes) {
  if (!bytes.empty()) std::memcpy(storage.write_host(true), bytes.data(), bytes.size());
}

std::string line(const std::string& what, Storage& storage) {
  return "  " + what + ": " +
         runtime::hybrid::values_text(element_of(storage), contents(storage), kShownValues) + "\n";
}

}  // namespace

Inspect::Inspect(const Inspection& what) : before_(of_thread) {
  of_thread.cross_check |= what.cross_check;
  if (what.values != nullptr) of_thread.values = what.values;
}
Inspect::~Inspect() { of_thread = before_; }

const Inspection& inspection() { return of_thread; }

OutputContents::OutputContents(const OpCall& call) : call_(call) {
  for (const auto& storage : call.outputs) {
    if (storage->version() == 0)
      write(*storage, std::vector<std::byte>(storage->bytes(), kUnwritten));
    before_.push_back(contents(*storage));
  }
}

void OutputContents::restore() const {
  for (std::size_t k = 0; k < before_.size(); ++k) write(*call_.outputs[k], before_[k]);
}

std::vector<std::vector<std::byte>> OutputContents::now() const {
  std::vector<std::vector<std::byte>> out;
  for (const auto& storage : call_.outputs) out.push_back(contents(*storage));
  return out;
}

std::uint64_t compare_outputs(const OpCall& call, const std::string& device,
                              const std::vector<std::vector<std::byte>>& there) {
  std::uint64_t compared = 0;
  for (std::size_t k = 0; k < there.size(); ++k) {
    Storage& storage = *call.outputs[k];
    const runtime::hybrid::Comparison found = runtime::hybrid::compare(
        "result " + std::to_string(k), element_of(storage), contents(storage), there[k]);
    compared += found.count;
    if (found.different == 0) continue;
    throw Error(ErrorCode::Internal, "cross_check: " + std::string(name(call.op)) + " of " +
                                         std::to_string(call.size) + " on \"" + device +
                                         "\": " + found.text());
  }
  return compared;
}

std::string operands_text(const OpCall& call) {
  std::string out;
  for (std::size_t k = 0; k < call.inputs.size(); ++k)
    out += line("operand " + std::to_string(k), *call.inputs[k]);
  return call.nodes ? out + call.nodes(kShownValues) : out;
}

std::string results_text(const OpCall& call, const std::string& device) {
  std::string out;
  for (std::size_t k = 0; k < call.outputs.size(); ++k)
    out += line("result " + std::to_string(k) + " on " + device, *call.outputs[k]);
  return out;
}

}  // namespace topograd::ops
