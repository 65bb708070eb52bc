#include "runtime/base/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace fasthvd {
namespace {

// Sets environment variables for one test and takes them back.
class Environment {
 public:
  using Values = std::map<std::string, std::string>;
  explicit Environment(Values values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : values_) unsetenv(name.c_str());
  }

 private:
  Values values_;
};

TEST(ConfigTest, DefaultsHoldWithoutVariables) {
  Result<Config> config = ConfigFromEnvironment();
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->lanes, 0);
  EXPECT_EQ(config->chunk_bytes, 256u << 10);
  EXPECT_EQ(config->start_timeout, std::chrono::seconds(30));
  EXPECT_TRUE(config->shared_memory);
}

TEST(ConfigTest, ReadsVariables) {
  Environment environment(Environment::Values{{"FASTHVD_LANES", "3"},
                                              {"FASTHVD_FUSION_THRESHOLD", "0"},
                                              {"FASTHVD_SHARED_MEMORY", "0"},
                                              {"FASTHVD_LOG_LEVEL", "DEBUG"}});
  Result<Config> config = ConfigFromEnvironment();
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->lanes, 3);
  EXPECT_EQ(config->fusion_bytes, 0u);
  EXPECT_FALSE(config->shared_memory);
  EXPECT_EQ(config->log_level, LogLevel::kDebug);
}

TEST(ConfigTest, OwnNamesWinOverHorovods) {
  Environment environment(
      {{"HOROVOD_GLOO_TIMEOUT_SECONDS", "7"}, {"HOROVOD_FUSION_THRESHOLD", "1000"}});
  Result<Config> config = ConfigFromEnvironment();
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->start_timeout, std::chrono::seconds(7));
  EXPECT_EQ(config->fusion_bytes, 1000u);
  Environment own(
      Environment::Values{{"FASTHVD_START_TIMEOUT", "5"}, {"FASTHVD_FUSION_THRESHOLD", "2000"}});
  config = ConfigFromEnvironment();
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->start_timeout, std::chrono::seconds(5));
  EXPECT_EQ(config->fusion_bytes, 2000u);
}

TEST(ConfigTest, AnEmptyVariableCountsAsUnset) {
  Environment environment(Environment::Values{{"FASTHVD_LANES", ""}});
  EXPECT_TRUE(ConfigFromEnvironment().ok());
}

TEST(ConfigTest, MalformedValuesAreNamed) {
  for (const char* value : {"x", "3x", "-1", "65", "99999999999999999999"}) {
    Environment environment(Environment::Values{{"FASTHVD_LANES", value}});
    Status status = ConfigFromEnvironment().status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << value;
    EXPECT_NE(status.message().find(std::string("FASTHVD_LANES=") + value), std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("0 to 64"), std::string::npos) << status.message();
  }
  Environment environment(Environment::Values{{"FASTHVD_LOG_LEVEL", "loud"}});
  EXPECT_FALSE(ConfigFromEnvironment().ok());
}

}  // namespace
}  // namespace fasthvd
