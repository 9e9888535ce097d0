// Files of checkpoints.
#include "checkpoint_file.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/output_file.hpp"
#include "../../runtime/cache/content_hash.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>

namespace topograd {
namespace {

constexpr std::string_view kMagic = "TGCHECK\n";
constexpr std::uint64_t kVersion = 1;

struct Header {
  std::array<char, 8> magic{};
  std::uint64_t version = kVersion, bytes = 0;
  runtime::Hash128 hash;
};
static_assert(sizeof(Header) == 40);

[[noreturn]] void refuse_bytes(const std::string& why) { throw Error(ErrorCode::Parse, why); }

[[noreturn]] void refuse_file(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::File, "checkpoint \"" + path + "\" cannot be read: " + why);
}

}  // namespace

std::vector<std::byte> seal_checkpoint(std::span<const std::byte> state) {
  Header header{.bytes = state.size(), .hash = runtime::hash_bytes(state)};
  std::memcpy(header.magic.data(), kMagic.data(), kMagic.size());
  std::vector<std::byte> file(sizeof header + state.size());
  std::memcpy(file.data(), &header, sizeof header);
  if (!state.empty()) std::memcpy(file.data() + sizeof header, state.data(), state.size());
  return file;
}

ir::StateRecord open_checkpoint(std::span<const std::byte> file) {
  Header header;
  if (file.size() >= kMagic.size()) std::memcpy(header.magic.data(), file.data(), kMagic.size());
  if (std::string_view(header.magic.data(), header.magic.size()) != kMagic)
    refuse_bytes("it is not a checkpoint of Topograd");
  if (file.size() < sizeof header) refuse_bytes("its header is cut off");
  std::memcpy(&header, file.data(), sizeof header);
  if (header.version != kVersion)
    refuse_bytes("its format has version " + std::to_string(header.version) +
                 ", this program reads " + std::to_string(kVersion));
  const std::span<const std::byte> state = file.subspan(sizeof header);
  if (header.bytes != state.size())
    refuse_bytes("it has " + std::to_string(state.size()) +
                 " bytes after its header, which announces " + std::to_string(header.bytes));
  if (header.hash != runtime::hash_bytes(state))
    refuse_bytes("its checksum does not match its contents");
  return ir::StateRecord(std::vector<std::byte>(state.begin(), state.end()));
}

std::string write_checkpoint(const std::string& path, std::span<const std::byte> state) {
  return platform::write_durable_file(path, seal_checkpoint(state));
}

std::string read_checkpoint_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  if (!file) refuse_file(path, errno != 0 ? std::strerror(errno) : "it cannot be opened");
  constexpr std::streamoff kMost = std::streamoff{1} << 46;  // what a folder says that it has
  if (size < 0 || size > kMost) refuse_file(path, "it is not a regular file");
  std::string bytes(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  file.read(bytes.data(), size);
  if (!file) refuse_file(path, "reading fails");
  return bytes;
}

ir::StateRecord open_checkpoint(const std::string& path, const std::string& bytes) {
  try {
    return open_checkpoint(std::as_bytes(std::span(bytes)));
  } catch (const Error& error) {
    throw Error(error.code(), "checkpoint \"" + path + "\": " + error.what());
  }
}

}  // namespace topograd
