#include "runtime/transport/endpoint.h"

#include <unistd.h>

#include <charconv>
#include <fstream>

#include "runtime/transport/sha256.h"
#include "runtime/transport/socket.h"

namespace fasthvd {
namespace {

// Fields are separated by '|', an address and its port by ','. Other bytes than these are written
// as '%' and two hex digits.
constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/";
constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kPrefix = "fasthvd1";
constexpr size_t kMaxLineBytes = 16 << 10;
constexpr size_t kMaxHostKeyBytes = 1024;
constexpr size_t kMaxIpBytes = 100;
constexpr size_t kMaxAddresses = 64;

std::string Escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (kPlain.find(c) != kPlain.npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 15];
    }
  }
  return out;
}

Status Malformed(const std::string& what) { return InvalidArgument("malformed endpoint: " + what); }

// `text` comes from Escape() and is at most `limit` bytes long when unescaped.
Result<std::string> Unescape(std::string_view text, size_t limit) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (out.size() == limit) return Malformed("a field is too long");
    if (kPlain.find(text[i]) != kPlain.npos) {
      out += text[i];
      continue;
    }
    if (text[i] != '%' || text.size() - i < 3) return Malformed("an unexpected character");
    const size_t high = kHexDigits.find(text[i + 1]);
    const size_t low = kHexDigits.find(text[i + 2]);
    if (high == kHexDigits.npos || low == kHexDigits.npos) return Malformed("a bad escape");
    out += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return out;
}

// Cuts off the text up to the next `separator`, or all of it.
std::string_view NextField(std::string_view* text, char separator) {
  const size_t end = text->find(separator);
  std::string_view field = text->substr(0, end);
  text->remove_prefix(end == text->npos ? text->size() : end + 1);
  return field;
}

Result<std::pair<std::string, int>> ParseTcp(std::string_view field) {
  Result<std::string> ip = Unescape(NextField(&field, ','), kMaxIpBytes);
  if (!ip.ok()) return ip.status();
  int port = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), port);
  if (ip->empty() || error != std::errc() || end != field.data() + field.size() || port < 1 ||
      port > 65535) {
    return Malformed("a bad address or port");
  }
  return std::make_pair(std::move(ip).value(), port);
}

// Empty if the system does not tell.
std::string BootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string NetworkNamespace() {
  char target[64];
  const ssize_t size = readlink("/proc/self/ns/net", target, sizeof(target));
  return size < 0 ? std::string() : std::string(target, static_cast<size_t>(size));
}

}  // namespace

std::string Endpoint::ToString() const {
  std::string line(kPrefix);
  line += '|' + Escape(host_key) + '|' + Escape(unix_name);
  for (const auto& [ip, port] : tcp) line += '|' + Escape(ip) + ',' + std::to_string(port);
  return line;
}

Result<Endpoint> Endpoint::Parse(std::string_view line) {
  if (line.size() > kMaxLineBytes) return Malformed("too long");
  if (NextField(&line, '|') != kPrefix) return Malformed("it does not start as one");
  Result<std::string> host_key = Unescape(NextField(&line, '|'), kMaxHostKeyBytes);
  if (!host_key.ok()) return host_key.status();
  Result<std::string> unix_name = Unescape(NextField(&line, '|'), kMaxAbstractName);
  if (!unix_name.ok()) return unix_name.status();
  Endpoint endpoint;
  endpoint.host_key = std::move(host_key).value();
  endpoint.unix_name = std::move(unix_name).value();
  while (!line.empty()) {
    if (endpoint.tcp.size() == kMaxAddresses) return Malformed("too many addresses");
    Result<std::pair<std::string, int>> address = ParseTcp(NextField(&line, '|'));
    if (!address.ok()) return address.status();
    endpoint.tcp.push_back(std::move(address).value());
  }
  return endpoint;
}

std::string LocalHostKey(const std::string& hostname) {
  std::string boot = BootId();
  std::string network = NetworkNamespace();
  if (boot.empty() || network.empty()) {
    uint64_t random = 0;
    // If this fails too, the process id still tells the ranks of a host apart.
    (void)RandomBytes(&random, sizeof(random));
    boot = "unknown:" + std::to_string(random) + ":" + std::to_string(getpid());
  }
  // Cut so that every key can be parsed.
  return hostname.substr(0, 512) + "/" + boot + "/" + network;
}

}  // namespace fasthvd
