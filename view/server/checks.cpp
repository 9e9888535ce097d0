// Checks of requests to a server, and its token.
#include "server.hpp"

#include <array>
#include <cstdint>
#include <random>

namespace topograd::view {
namespace {

/// The host without its port.
std::string_view name_of(std::string_view host) {
  const std::size_t bracket = host.rfind(']'), colon = host.rfind(':');
  const bool has_port = colon != host.npos && (bracket == host.npos || colon > bracket);
  return has_port ? host.substr(0, colon) : host;
}

}  // namespace

bool is_loopback(std::string_view address) {
  if (address == "::1") return true;
  if (!address.starts_with("127.")) return false;
  int dots = 0;
  for (const char c : address) {
    if (c != '.' && (c < '0' || c > '9')) return false;
    dots += c == '.';
  }
  return dots == 3;
}

std::string random_token() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr int kWords = 4, kDigitsOfWord = 8;
  std::random_device source;
  std::string token;
  for (int word = 0; word < kWords; ++word) {
    std::uint32_t bits = source();
    for (int digit = 0; digit < kDigitsOfWord; ++digit, bits >>= 4) token += kDigits[bits & 15U];
  }
  return token;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t k = 0; k < a.size(); ++k)
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(a[k]) ^ static_cast<unsigned char>(b[k]));
  return difference == 0;
}

bool accepts_host(std::string_view host, std::string_view address) {
  if (host.empty()) return false;
  if (!is_loopback(address)) return true;
  const std::string_view name = name_of(host);
  return name == "localhost" || name == "[::1]" || is_loopback(name);
}

bool accepts_origin(std::string_view origin, std::string_view host) {
  constexpr std::array<std::string_view, 2> kSchemes = {"http://", "https://"};
  for (const std::string_view scheme : kSchemes)
    if (origin.starts_with(scheme) && origin.substr(scheme.size()) == host) return true;
  return false;
}

}  // namespace topograd::view
