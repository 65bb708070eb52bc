#include "runtime/lanes/batch.h"

#include <gtest/gtest.h>

#include <string>

namespace fasthvd {
namespace {

struct Piece {
  std::string input;
  size_t offset;
};
bool operator==(const Piece& a, const Piece& b) {
  return a.input == b.input && a.offset == b.offset;
}

const char kData[] = "abcdefghij";
char output[16];

std::shared_ptr<Batch> Of(std::vector<Segment> segments) {
  return std::make_shared<Batch>(CollectiveKind::kAllreduce, ReduceSpec(), 0, std::move(segments),
                                 [](Batch*, const Status&) {});
}

std::vector<Piece> Pieces(const Batch& batch, size_t begin, size_t end) {
  std::vector<Piece> pieces;
  batch.ForEachPiece(begin, end, [&](const char* input, char*, size_t bytes, size_t offset) {
    pieces.push_back({std::string(input, bytes), offset});
  });
  return pieces;
}

TEST(BatchTest, PiecesFollowTheTensors) {
  auto batch = Of({{kData, output, 3}, {kData + 3, output + 3, 4}, {kData + 7, output + 7, 1}});
  EXPECT_EQ(batch->bytes(), 8u);
  EXPECT_EQ(Pieces(*batch, 0, 8), (std::vector<Piece>{{"abc", 0}, {"defg", 3}, {"h", 7}}));
  EXPECT_EQ(Pieces(*batch, 2, 5), (std::vector<Piece>{{"c", 0}, {"de", 1}}));
  EXPECT_EQ(Pieces(*batch, 3, 7), (std::vector<Piece>{{"defg", 0}}));
  EXPECT_TRUE(Pieces(*batch, 4, 4).empty());
}

TEST(BatchTest, StripesCoverTheBatchOnceAndAreAligned) {
  for (size_t bytes : {1ul, 1000ul, (1ul << 20) - 1, (3ul << 20) + 8, 64ul << 20}) {
    for (int lanes : {1, 2, 3, 7}) {
      auto batch = Of({{kData, output, bytes}});
      size_t covered = 0;
      for (const auto& [lane, stripe] : CutStripes(batch, 5, lanes)) {
        EXPECT_GE(lane, 0);
        EXPECT_LT(lane, lanes);
        EXPECT_EQ(stripe.begin, covered);
        EXPECT_EQ(stripe.begin % 64, 0u);
        covered = stripe.end;
      }
      EXPECT_EQ(covered, bytes);
    }
  }
}

TEST(BatchTest, SmallBatchesSpreadOverTheLanes) {
  for (uint64_t sequence = 0; sequence < 6; ++sequence) {
    auto stripes = CutStripes(Of({{kData, output, 100}}), sequence, 3);
    ASSERT_EQ(stripes.size(), 1u);
    EXPECT_EQ(stripes[0].first, static_cast<int>(sequence % 3));
  }
}

TEST(BatchTest, IsDoneOnceWithTheFirstError) {
  int calls = 0;
  Status result;
  Batch batch(CollectiveKind::kAllreduce, ReduceSpec(), 0, {{kData, output, 1}},
              [&](Batch*, const Status& status) {
                ++calls;
                result = status;
              });
  batch.SetStripes(3);
  batch.StripeDone(Status::Ok());
  batch.StripeDone(PeerLost("first"));
  EXPECT_EQ(calls, 0);
  batch.StripeDone(PeerLost("second"));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(result.message(), "first");
}

}  // namespace
}  // namespace fasthvd
