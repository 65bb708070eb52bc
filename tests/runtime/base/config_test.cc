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
  EXPECT_EQ(config->result_keep_bytes, 256u << 20);
  EXPECT_EQ(config->start_timeout, std::chrono::seconds(30));
  EXPECT_TRUE(config->shared_memory);
}

TEST(ConfigTest, ReadsVariables) {
  Environment environment(Environment::Values{{"FASTHVD_LANES", "3"},
                                              {"FASTHVD_FUSION_THRESHOLD", "0"},
                                              {"FASTHVD_RESULT_KEEP_BYTES", "4096"},
                                              {"FASTHVD_SHARED_MEMORY", "0"},
                                              {"FASTHVD_LOG_LEVEL", "DEBUG"}});
  Result<Config> config = ConfigFromEnvironment();
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->lanes, 3);
  EXPECT_EQ(config->fusion_bytes, 0u);
  EXPECT_EQ(config->result_keep_bytes, 4096u);
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

TEST(ConfigTest, ReadsListsOfCpus) {
  using Cpus = std::vector<int>;
  for (const auto& [text, cpus] : std::map<std::string, Cpus>{
           {"3", {3}}, {"0,2-4,1", {0, 2, 3, 4, 1}}, {"5-5", {5}}, {"1023", {1023}}}) {
    Environment environment(Environment::Values{{"FASTHVD_LANE_CPUS", text}});
    Result<Config> config = ConfigFromEnvironment();
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->lane_cpus, cpus) << text;
  }
  for (const char* text : {"x", ",", "1,", ",1", "1,,2", "-1", "1-", "3-2", "1-2-3", "1 2", "1024",
                           "99999999999999999999"}) {
    Environment environment(Environment::Values{{"FASTHVD_LANE_CPUS", text}});
    Status status = ConfigFromEnvironment().status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(std::string("FASTHVD_LANE_CPUS=") + text), std::string::npos)
        << status.message();
  }
}

TEST(ConfigTest, ReadsTheLanesHost) {
  EXPECT_EQ(ConfigFromEnvironment()->lane_host, LaneHost::kThread);
  for (const char* text : {"thread", "process"}) {
    Environment environment(Environment::Values{{"FASTHVD_LANE_HOST", text}});
    const bool process = *text == 'p';
    EXPECT_EQ(ConfigFromEnvironment()->lane_host, process ? LaneHost::kProcess : LaneHost::kThread);
  }
  Environment environment(Environment::Values{{"FASTHVD_LANE_HOST", "fiber"}});
  EXPECT_NE(ConfigFromEnvironment().status().message().find("FASTHVD_LANE_HOST=fiber"),
            std::string::npos);
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
