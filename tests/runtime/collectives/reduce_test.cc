// Every kernel of every instruction set that this CPU has, against a plain scalar reference.
#include "runtime/collectives/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/collectives/reduce_kernels.h"

namespace fasthvd {
namespace {

using Bytes = std::vector<unsigned char>;

template <typename T>
T Load(const unsigned char* bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Store(T value, unsigned char* bytes, size_t index) {
  std::memcpy(bytes + index * sizeof(T), &value, sizeof(T));
}

// A 16-bit float format, computed by the book: exactly, in double.
struct Format {
  int mantissa_bits;
  int bias;
};
constexpr Format kHalf = {10, 15};
constexpr Format kBrain = {7, 127};

double Decode(Format format, uint16_t bits) {
  const int steps = 1 << format.mantissa_bits;
  const int exponent = (bits & 0x7fff) / steps;
  const int mantissa = bits % steps;
  double value;
  if (exponent == 2 * format.bias + 1) {
    value = mantissa != 0 ? NAN : INFINITY;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  } else {
    value = std::ldexp(steps + mantissa, exponent - format.bias - format.mantissa_bits);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t Encode(Format format, double value) {
  const int steps = 1 << format.mantissa_bits;
  const uint16_t infinity = static_cast<uint16_t>((2 * format.bias + 1) * steps);
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return infinity + 1;
  if (value == 0) return sign;
  if (std::isinf(value)) return sign | infinity;
  const int exponent = std::max(std::ilogb(value), 1 - format.bias);
  const double rounded =
      std::nearbyint(std::ldexp(std::abs(value), format.mantissa_bits - exponent));
  // A subnormal has no implicit one; a mantissa rounded up to the next power carries by itself.
  const double bits = (exponent + format.bias - 1.0) * steps + rounded;
  return sign | (bits >= infinity ? infinity : static_cast<uint16_t>(bits));
}

template <typename T>
T Combine(ReduceOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    }
  }
  switch (op) {
    case ReduceOp::kMin:
      return a < b ? a : b;
    case ReduceOp::kMax:
      return a > b ? a : b;
    case ReduceOp::kProduct:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(uint64_t(a) * uint64_t(b));
      return static_cast<T>(a * b);
    default:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(uint64_t(a) + uint64_t(b));
      return static_cast<T>(a + b);
  }
}

template <typename T>
T FinishFloat(const ReduceSpec& spec, T value) {
  if (spec.op != ReduceOp::kAverage) return value * static_cast<T>(spec.postscale);
  if (spec.postscale == 1.0) return value / static_cast<T>(spec.divisor);
  return value * static_cast<T>(spec.postscale / spec.divisor);
}

template <typename T>
T Clamp(double value) {
  if (std::isnan(value)) return 0;
  const long double truncated = std::trunc(static_cast<long double>(value));
  if (truncated <= std::numeric_limits<T>::min()) return std::numeric_limits<T>::min();
  if (truncated >= std::numeric_limits<T>::max()) return std::numeric_limits<T>::max();
  return static_cast<T>(truncated);
}

using Sources = std::vector<const unsigned char*>;

template <typename Accumulator, typename DecodeFunction>
Accumulator FloatResult(const ReduceSpec& spec, const Sources& sources, DecodeFunction decode) {
  Accumulator result = decode(sources[0]) * static_cast<Accumulator>(spec.prescale);
  for (size_t k = 1; k < sources.size(); ++k) {
    const Accumulator other = decode(sources[k]) * static_cast<Accumulator>(spec.prescale);
    result = Combine(spec.op, result, other);
  }
  return FinishFloat(spec, result);
}

template <typename T>
T IntegerResult(const ReduceSpec& spec, const Sources& sources, size_t i) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  Wide result = 0;
  for (size_t k = 0; k < sources.size(); ++k) {
    Wide value = Load<T>(sources[k], i);
    if (spec.prescale != 1.0) value = Clamp<Wide>(static_cast<double>(value) * spec.prescale);
    result = k == 0 ? value : Combine(spec.op, result, value);
  }
  const int divisor = spec.op == ReduceOp::kAverage ? spec.divisor : 1;
  if (spec.postscale != 1.0) {
    return Clamp<T>(static_cast<double>(result) * spec.postscale / divisor);
  }
  return static_cast<T>(result / static_cast<Wide>(divisor));
}

bool BoolResult(const ReduceSpec& spec, const Sources& sources, size_t i) {
  size_t trues = 0;
  for (const unsigned char* source : sources) trues += source[i] != 0;
  const bool is_or = spec.op == ReduceOp::kSum || spec.op == ReduceOp::kMax;
  return is_or ? trues > 0 : trues == sources.size();
}

void ReferenceElement(const ReduceSpec& spec, const Sources& sources, size_t i,
                      unsigned char* out) {
  const auto sixteen = [&](Format format) {
    const auto decode = [&](const unsigned char* source) {
      return static_cast<float>(Decode(format, Load<uint16_t>(source, i)));
    };
    Store(Encode(format, FloatResult<float>(spec, sources, decode)), out, i);
  };
  const auto own = [&](auto zero) {
    using T = decltype(zero);
    const auto decode = [&](const unsigned char* source) { return Load<T>(source, i); };
    Store(FloatResult<T>(spec, sources, decode), out, i);
  };
  const auto integer = [&](auto zero) {
    Store(IntegerResult<decltype(zero)>(spec, sources, i), out, i);
  };
  // clang-format off
  switch (spec.dtype) {
    case DataType::kUint8: return integer(uint8_t{});
    case DataType::kInt8: return integer(int8_t{});
    case DataType::kUint16: return integer(uint16_t{});
    case DataType::kInt16: return integer(int16_t{});
    case DataType::kUint32: return integer(uint32_t{});
    case DataType::kInt32: return integer(int32_t{});
    case DataType::kUint64: return integer(uint64_t{});
    case DataType::kInt64: return integer(int64_t{});
    case DataType::kFloat16: return sixteen(kHalf);
    case DataType::kBfloat16: return sixteen(kBrain);
    case DataType::kFloat32: return own(float{});
    case DataType::kFloat64: return own(double{});
    case DataType::kBool: return Store<uint8_t>(BoolResult(spec, sources, i), out, i);
  }
  // clang-format on
}

bool IsNan(DataType dtype, const unsigned char* bytes, size_t i) {
  switch (dtype) {
    case DataType::kFloat16:
      return std::isnan(Decode(kHalf, Load<uint16_t>(bytes, i)));
    case DataType::kBfloat16:
      return std::isnan(Decode(kBrain, Load<uint16_t>(bytes, i)));
    case DataType::kFloat32:
      return std::isnan(Load<float>(bytes, i));
    case DataType::kFloat64:
      return std::isnan(Load<double>(bytes, i));
    default:
      return false;
  }
}

// The index of the first element that differs in bits, two NaNs apart; `count` if none.
size_t FirstDifference(DataType dtype, const unsigned char* a, const unsigned char* b,
                       size_t count) {
  const size_t size = SizeOf(dtype);
  for (size_t i = 0; i < count; ++i) {
    if (std::memcmp(a + i * size, b + i * size, size) == 0) continue;
    if (!IsNan(dtype, a, i) || !IsNan(dtype, b, i)) return i;
  }
  return count;
}

// Every third element has random bits (all of NaN, infinity, denormals; bytes above 1 for bool),
// the others are small numbers, so that sums are mostly finite.
void Fill(DataType dtype, size_t count, std::mt19937* random, unsigned char* out) {
  for (size_t i = 0; i < count * SizeOf(dtype); ++i) out[i] = static_cast<uint8_t>((*random)());
  for (size_t i = 0; i < count; ++i) {
    const double value = std::ldexp(static_cast<int32_t>((*random)()), -24);
    if (i % 3 == 0) continue;
    if (dtype == DataType::kFloat16) Store(Encode(kHalf, value), out, i);
    if (dtype == DataType::kBfloat16) Store(Encode(kBrain, value), out, i);
    if (dtype == DataType::kFloat32) Store(static_cast<float>(value), out, i);
    if (dtype == DataType::kFloat64) Store(value, out, i);
    if (dtype == DataType::kBool) Store<uint8_t>((*random)() % 2, out, i);
  }
}

void ReduceInSteps(const ReduceKernels& kernels, const ReduceSpec& spec, const Sources& sources,
                   unsigned char* out, size_t count) {
  const DataType wide = AccumulatorOf(spec.dtype);
  std::vector<uint64_t> accumulator(count + 1), other(count + 1);
  kernels.to_accumulator(spec, sources[0], accumulator.data(), count);
  for (size_t k = 1; k < sources.size(); ++k) {
    kernels.to_accumulator(spec, sources[k], other.data(), count);
    kernels.accumulate(wide, spec.op, accumulator.data(), other.data(), count);
  }
  kernels.from_accumulator(spec, accumulator.data(), out, count);
}

class ReduceTest : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    kernels_ = KernelsFor(GetParam());
    if (kernels_ == nullptr) GTEST_SKIP() << "This CPU lacks the instruction set.";
  }

  // Reduces into an array of its own, in steps, and into each of the sources.
  void Check(const ReduceSpec& spec, size_t source_count, size_t count) {
    SCOPED_TRACE(std::string(NameOf(spec.dtype)) + " " + NameOf(spec.op) + " of " +
                 std::to_string(source_count) + " x " + std::to_string(count) + ", scales " +
                 std::to_string(spec.prescale) + " " + std::to_string(spec.postscale));
    const size_t size = SizeOf(spec.dtype);
    std::vector<Bytes> arrays(source_count, Bytes((count + 4) * size));
    Sources sources;
    for (size_t k = 0; k < source_count; ++k) {
      unsigned char* const start = arrays[k].data() + (k % 4) * size;  // Only element-aligned.
      Fill(spec.dtype, count, &random_, start);
      sources.push_back(start);
    }
    Bytes expected(count * size), out(count * size + size, 0xa5);
    for (size_t i = 0; i < count; ++i) ReferenceElement(spec, sources, i, expected.data());

    Run(spec, sources, out.data(), count);
    ExpectEqual(spec.dtype, expected, out.data(), count, "Reduce");
    for (size_t i = 0; i < size; ++i) EXPECT_EQ(out[count * size + i], 0xa5) << "past the end";
    ReduceInSteps(*kernels_, spec, sources, out.data(), count);
    ExpectEqual(spec.dtype, expected, out.data(), count, "steps");
    for (size_t k = 0; k < source_count; ++k) {
      const Bytes saved = arrays[k];
      unsigned char* const in_place = arrays[k].data() + (k % 4) * size;
      Run(spec, sources, in_place, count);
      ExpectEqual(spec.dtype, expected, in_place, count, "in place");
      std::memcpy(arrays[k].data(), saved.data(), saved.size());
    }
  }

  void Run(const ReduceSpec& spec, const Sources& sources, unsigned char* out, size_t count) {
    const std::vector<const void*> pointers(sources.begin(), sources.end());
    kernels_->reduce(spec, pointers.data(), static_cast<int>(pointers.size()), out, count);
  }

  void ExpectEqual(DataType dtype, const Bytes& expected, const unsigned char* actual, size_t count,
                   const char* what) {
    EXPECT_EQ(FirstDifference(dtype, expected.data(), actual, count), count) << what;
  }

  template <typename T>
  T ReduceValues(ReduceSpec spec, const std::vector<T>& values) {
    std::vector<const void*> sources;
    for (const T& value : values) sources.push_back(&value);
    T result;
    kernels_->reduce(spec, sources.data(), static_cast<int>(values.size()), &result, 1);
    return result;
  }

  const ReduceKernels* kernels_ = nullptr;
  std::mt19937 random_{20211};
};

TEST_P(ReduceTest, MatchesReference) {
  const double scales[][2] = {{1, 1}, {0.3, 1}, {1, 2.5}, {-1e30, 1e10}};
  for (int dtype = 0; dtype < kDataTypeCount; ++dtype) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      ReduceSpec spec;
      spec.dtype = static_cast<DataType>(dtype);
      spec.op = static_cast<ReduceOp>(op);
      if (!CheckReducible(spec.dtype, spec.op).ok()) continue;
      for (int sources : {1, 2, 3, 8, 9}) {  // Up to 8 go in one pass.
        spec.divisor = sources;
        for (const auto& scale : scales) {
          spec.prescale = scale[0];
          spec.postscale = scale[1];
          for (size_t count : {0, 1, 7, 67}) Check(spec, sources, count);
        }
        spec.prescale = spec.postscale = 1.0;
        Check(spec, sources, sources <= 3 ? 4097 : 1023);
        if (HasFailure()) return;  // One report is enough.
      }
    }
  }
}

// All values, so that a wrong conversion has nowhere to hide; more than a vector's worth.
TEST_P(ReduceTest, ConvertsEverySixteenBitFloat) {
  for (const DataType dtype : {DataType::kFloat16, DataType::kBfloat16}) {
    const Format format = dtype == DataType::kFloat16 ? kHalf : kBrain;
    ReduceSpec spec;
    spec.dtype = dtype;
    std::vector<uint16_t> values(65536 + 3), back(values.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i);
    std::vector<float> wide(values.size());
    kernels_->to_accumulator(spec, values.data(), wide.data(), values.size());
    kernels_->from_accumulator(spec, wide.data(), back.data(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const float expected = static_cast<float>(Decode(format, values[i]));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(wide[i]) && std::isnan(Decode(format, back[i])));
      } else {
        ASSERT_EQ(wide[i], expected);
        ASSERT_EQ(back[i], values[i]);
      }
    }
  }
}

// Ties between neighbours, and just beside them, up to the overflow to infinity.
TEST_P(ReduceTest, RoundsToNearestEven) {
  for (const DataType dtype : {DataType::kFloat16, DataType::kBfloat16}) {
    const Format format = dtype == DataType::kFloat16 ? kHalf : kBrain;
    ReduceSpec spec;
    spec.dtype = dtype;
    const int infinity = (2 * format.bias + 1) << format.mantissa_bits;
    std::vector<float> wide;
    for (int bits = 0; bits + 1 < infinity; ++bits) {
      const double a = Decode(format, static_cast<uint16_t>(bits));
      const double b = Decode(format, static_cast<uint16_t>(bits + 1));
      const float tie = static_cast<float>((a + b) / 2);
      for (float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, INFINITY)}) {
        wide.push_back(bits % 3 == 0 ? -value : value);
      }
    }
    for (float edge : {65519.996f, 65520.0f, 65536.0f, 1e30f, 3.4e38f, 1e-8f, 1e-45f}) {
      wide.push_back(edge);
    }
    std::vector<uint16_t> narrow(wide.size());
    kernels_->from_accumulator(spec, wide.data(), narrow.data(), wide.size());
    for (size_t i = 0; i < wide.size(); ++i) {
      ASSERT_EQ(narrow[i], Encode(format, wide[i])) << NameOf(dtype) << " " << wide[i];
    }
  }
}

TEST_P(ReduceTest, AveragesWithoutOverflow) {
  ReduceSpec spec;
  spec.op = ReduceOp::kAverage;
  spec.divisor = 2;
  spec.dtype = DataType::kFloat16;
  const uint16_t big = Encode(kHalf, 60000);
  EXPECT_EQ(ReduceValues<uint16_t>(spec, {big, big}), big);
  spec.dtype = DataType::kUint8;
  EXPECT_EQ(ReduceValues<uint8_t>(spec, {200, 200}), 200);
  spec.dtype = DataType::kInt32;
  EXPECT_EQ(ReduceValues<int32_t>(spec, {-3, -4}), -3);
  spec.divisor = 3;
  spec.dtype = DataType::kFloat32;
  EXPECT_EQ(ReduceValues<float>(spec, {1, 2, 4}), 7.0f / 3.0f);
}

TEST_P(ReduceTest, PropagatesNanFromEveryPlace) {
  ReduceSpec spec;
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    spec.op = op;
    for (size_t place = 0; place < 5; ++place) {
      std::vector<float> values = {1, -INFINITY, 0, INFINITY, 2};
      values[place] = NAN;
      EXPECT_TRUE(std::isnan(ReduceValues(spec, values)));
    }
  }
}

std::string NameOfParam(const testing::TestParamInfo<InstructionSet>& info) {
  constexpr const char* kNames[kInstructionSetCount] = {"Baseline", "Avx2", "Avx512"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, ReduceTest,
                         testing::Values(InstructionSet::kBaseline, InstructionSet::kAvx2,
                                         InstructionSet::kAvx512),
                         NameOfParam);

TEST(CheckReducibleTest, RejectsTheAverageOfBoolOnly) {
  const Status status = CheckReducible(DataType::kBool, ReduceOp::kAverage);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("float32"), std::string::npos);
  EXPECT_TRUE(CheckReducible(DataType::kBool, ReduceOp::kSum).ok());
  EXPECT_TRUE(CheckReducible(DataType::kUint8, ReduceOp::kAverage).ok());
}

// The public functions, on whatever this CPU has.
TEST(ReduceDispatchTest, Sums) {
  const std::vector<float> a = {1, 2, 3}, b = {10, 20, 30};
  const void* sources[] = {a.data(), b.data()};
  std::vector<float> sum(3), steps(3);
  ReduceSpec spec;
  Reduce(spec, sources, 2, sum.data(), 3);
  ToAccumulator(spec, a.data(), steps.data(), 3);
  Accumulate(AccumulatorOf(spec.dtype), spec.op, steps.data(), b.data(), 3);
  FromAccumulator(spec, steps.data(), steps.data(), 3);
  EXPECT_EQ(sum, (std::vector<float>{11, 22, 33}));
  EXPECT_EQ(steps, sum);
}

}  // namespace
}  // namespace fasthvd
