#include "runtime/base/closable_queue.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <thread>
#include <vector>

namespace fasthvd {
namespace {

// Also a test of Doorbell, which is its sleep.
TEST(ClosableQueueTest, FirstInFirstOut) {
  ClosableQueue<std::unique_ptr<int>> queue;
  EXPECT_FALSE(queue.TryPop().has_value());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.Push(std::make_unique<int>(i)));
  EXPECT_EQ(**queue.TryPop(), 0);
  EXPECT_EQ(**queue.Pop(), 1);
  EXPECT_EQ(**queue.Pop(), 2);
}

TEST(ClosableQueueTest, WhatIsQueuedSurvivesTheClose) {
  ClosableQueue<int> queue;
  EXPECT_TRUE(queue.Push(1));
  queue.Close();
  EXPECT_FALSE(queue.Push(2));
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_FALSE(queue.Pop().has_value());
}

TEST(ClosableQueueTest, CloseWakesTheWaiter) {
  for (int round = 0; round < 100; ++round) {
    ClosableQueue<int> queue;
    std::thread waiter([&queue] { EXPECT_FALSE(queue.Pop().has_value()); });
    queue.Close();
    waiter.join();
  }
}

TEST(ClosableQueueTest, NoDescriptorsLeftIsTold) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_FALSE(ClosableQueue<int>().valid());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(ClosableQueue<int>().valid());
}

TEST(ClosableQueueTest, NothingIsLostBetweenThreads) {
  constexpr int kItems = 10000;
  ClosableQueue<int> queue;
  int64_t sum = 0;
  std::thread consumer([&] {
    while (std::optional<int> item = queue.Pop()) sum += *item;
  });
  std::vector<std::thread> producers;
  for (int p = 0; p < 2; ++p) {
    producers.emplace_back([&queue] {
      for (int i = 1; i <= kItems; ++i) queue.Push(i);
    });
  }
  for (std::thread& producer : producers) producer.join();
  queue.Close();
  consumer.join();
  EXPECT_EQ(sum, 2 * (int64_t{kItems} * (kItems + 1) / 2));
}

}  // namespace
}  // namespace fasthvd
