#include "runtime/transport/endpoint.h"

#include <string>

#include "tests/runtime/transport/transport_testing.h"

namespace fasthvd {
namespace {

Endpoint Example() {
  Endpoint endpoint;
  endpoint.host_key = "node-1/8d93/net:[4026531833]";
  endpoint.tcp = {{"10.0.0.1", 1}, {"fe80::1%eth0", 65535}};
  endpoint.unix_name = "fasthvd-12-34";
  return endpoint;
}

void ExpectRoundTrip(const Endpoint& endpoint) {
  const std::string line = endpoint.ToString();
  for (char c : line) EXPECT_TRUE(c > ' ' && c < 127) << line;
  Result<Endpoint> parsed = Endpoint::Parse(line);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->host_key, endpoint.host_key);
  EXPECT_EQ(parsed->tcp, endpoint.tcp);
  EXPECT_EQ(parsed->unix_name, endpoint.unix_name);
}

TEST(EndpointTest, RoundTrip) {
  ExpectRoundTrip(Example());
  ExpectRoundTrip(Endpoint());
  Endpoint hostile = Example();
  hostile.host_key.clear();
  for (int byte = 0; byte < 256; ++byte) hostile.host_key += static_cast<char>(byte);
  hostile.tcp.resize(64, {"a|b,c", 7});
  ExpectRoundTrip(hostile);
}

TEST(EndpointTest, IsReadable) {
  Endpoint endpoint = Example();
  endpoint.host_key = "node-1";
  endpoint.tcp.resize(1);
  EXPECT_EQ(endpoint.ToString(), "fasthvd1|node-1|fasthvd-12-34|10.0.0.1,1");
}

TEST(EndpointTest, RefusesTheMalformed) {
  const std::string start = "fasthvd1|host|name|";
  for (const std::string& line : {
           std::string(),
           std::string("fasthvd2|host|name|10.0.0.1,1"),
           std::string("{\"host\": 1}"),
           start + "10.0.0.1",
           start + "10.0.0.1,",
           start + ",5",
           start + "10.0.0.1,0",
           start + "10.0.0.1,65536",
           start + "10.0.0.1,-1",
           start + "10.0.0.1,99999999999999999999",
           start + "10.0.0.1,1x",
           start + "10.0.0.1,1,2",
           start + "10.0.0.1,1||10.0.0.1,2",
           start + "10.0.0.1,1\n",
           start + "a b,1",
           start + "%4,1",
           start + "%,1",
           start + "%zz,1",
           start + std::string(101, 'a') + ",1",
           "fasthvd1|host|" + std::string(101, 'n'),
           "fasthvd1|" + std::string(1025, 'h') + "|name",
           std::string(1 << 20, 'x'),
       }) {
    EXPECT_EQ(Endpoint::Parse(line).status().code(), StatusCode::kInvalidArgument) << line;
  }
  Endpoint many = Example();
  many.tcp.resize(65, {"10.0.0.1", 1});
  EXPECT_FALSE(Endpoint::Parse(many.ToString()).ok());
}

// No line, however cut or damaged, does harm (the sanitizers watch).
TEST(EndpointTest, SurvivesDamage) {
  const std::string line = Example().ToString();
  for (size_t i = 0; i < line.size(); ++i) {
    (void)Endpoint::Parse(line.substr(0, i));
    for (char c : {'\0', '%', '|', ',', '\xff'}) {
      std::string damaged = line;
      damaged[i] = c;
      (void)Endpoint::Parse(damaged);
    }
  }
}

TEST(LocalHostKeyTest, TellsHostsApart) {
  EXPECT_EQ(LocalHostKey("a"), LocalHostKey("a"));
  EXPECT_NE(LocalHostKey("a"), LocalHostKey("b"));
  Endpoint endpoint;
  endpoint.host_key = LocalHostKey(std::string(5000, '\n'));
  ExpectRoundTrip(endpoint);
}

}  // namespace
}  // namespace fasthvd
