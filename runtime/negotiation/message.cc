#include "runtime/negotiation/message.h"

#include <cstring>
#include <type_traits>
#include <utility>

namespace fasthvd {
namespace {

constexpr uint16_t kMagic = 0x4846;  // "FH"
constexpr uint8_t kVersion = 1;

class Writer {
 public:
  template <typename T>
  void Number(T value) {
    static_assert(std::is_arithmetic_v<T>);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire format is written in host order, which must be little-endian"
#endif
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(std::string_view text) {
    Number(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads within bounds; after the first fault every read yields zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Number() {
    T value{};
    if (bytes_.size() < sizeof(T)) {
      ok_ = false;
      bytes_ = {};
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return value;
  }
  std::string Text(size_t limit) {
    size_t size = Number<uint32_t>();
    if (size > limit || size > bytes_.size()) {
      ok_ = false;
      return "";
    }
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  // A count of items of at least `item_bytes` each, so that it cannot exceed what is there.
  size_t Count(size_t item_bytes, size_t limit) {
    size_t count = Number<uint32_t>();
    if (count > limit || count > bytes_.size() / item_bytes) ok_ = false;
    return ok_ ? count : 0;
  }
  // A value of an enumeration with `count` members.
  template <typename E>
  E Enum(int count) {
    uint8_t value = Number<uint8_t>();
    if (value >= count) ok_ = false;
    return static_cast<E>(ok_ ? value : 0);
  }
  void Reject() { ok_ = false; }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

constexpr size_t kUnlimited = 0xffffffffu;

void Write(Writer& out, const EntryDescription& d) {
  out.Text(d.name);
  out.Number(static_cast<uint8_t>(d.kind));
  out.Number(static_cast<uint8_t>(d.dtype));
  out.Number(static_cast<uint8_t>(d.op));
  out.Number(d.prescale);
  out.Number(d.postscale);
  out.Number(d.root);
  out.Number(d.process_set);
  out.Number(static_cast<uint32_t>(d.shapes.size()));
  for (const Shape& shape : d.shapes) {
    out.Number(static_cast<uint8_t>(shape.size()));
    for (int64_t dimension : shape) out.Number(dimension);
  }
}

// Also rejects shapes whose byte count would overflow.
Shape ReadShape(Reader& in, uint64_t* elements_left) {
  size_t dimensions = in.Number<uint8_t>();
  if (dimensions > kMaxDimensions) in.Reject();
  Shape shape;
  uint64_t elements = 1;
  for (size_t i = 0; i < dimensions && in.ok(); ++i) {
    int64_t dimension = in.Number<int64_t>();
    if (dimension < 0 ||
        __builtin_mul_overflow(elements, static_cast<uint64_t>(dimension), &elements)) {
      in.Reject();
    }
    shape.push_back(dimension);
  }
  if (elements > *elements_left) in.Reject();
  *elements_left -= in.ok() ? elements : 0;
  return shape;
}

EntryDescription ReadDescription(Reader& in) {
  EntryDescription d;
  d.name = in.Text(kMaxNameBytes);
  d.kind = in.Enum<CollectiveKind>(kCollectiveKindCount);
  d.dtype = in.Enum<DataType>(kDataTypeCount);
  d.op = in.Enum<ReduceOp>(kReduceOpCount);
  d.prescale = in.Number<double>();
  d.postscale = in.Number<double>();
  d.root = in.Number<int32_t>();
  d.process_set = in.Number<int32_t>();
  size_t shapes = in.Count(1, kMaxTensorsPerEntry);
  uint64_t elements_left = uint64_t{1} << 56;  // Times 8 bytes still fits 64 bits.
  for (size_t i = 0; i < shapes && in.ok(); ++i) d.shapes.push_back(ReadShape(in, &elements_left));
  return d;
}

void Write(Writer& out, const ReadyMessage& message) {
  out.Number(static_cast<uint32_t>(message.entries.size()));
  for (const Announcement& entry : message.entries) {
    out.Number(entry.id);
    out.Number(entry.step);
    if (entry.id != kNoId) continue;
    Write(out, entry.description);
    out.Number(static_cast<uint8_t>(entry.duplicate));
  }
}

ReadyMessage ReadReady(Reader& in) {
  ReadyMessage message;
  size_t count = in.Count(sizeof(uint32_t) + sizeof(uint64_t), kUnlimited);
  for (size_t i = 0; i < count && in.ok(); ++i) {
    Announcement& entry = message.entries.emplace_back();
    entry.id = in.Number<uint32_t>();
    entry.step = in.Number<uint64_t>();
    if (entry.id != kNoId) continue;
    entry.description = ReadDescription(in);
    entry.duplicate = in.Enum<uint8_t>(2) != 0;
  }
  return message;
}

void Write(Writer& out, const PlanMessage& message) {
  out.Number(static_cast<uint32_t>(message.steps.size()));
  for (const PlanStep& step : message.steps) {
    out.Number(static_cast<uint8_t>(step.error.code()));
    if (!step.error.ok()) {
      out.Text(step.error.message());
      out.Number(static_cast<uint32_t>(step.ranks.size()));
      for (uint32_t rank : step.ranks) out.Number(rank);
    }
    out.Number(static_cast<uint32_t>(step.entries.size()));
    for (const PlannedEntry& entry : step.entries) {
      out.Number(entry.id);
      out.Text(entry.name);
    }
  }
}

PlanMessage ReadPlan(Reader& in) {
  PlanMessage message;
  size_t steps = in.Count(5, kUnlimited);
  for (size_t i = 0; i < steps && in.ok(); ++i) {
    PlanStep& step = message.steps.emplace_back();
    auto code = in.Enum<StatusCode>(static_cast<int>(StatusCode::kInternal) + 1);
    if (code != StatusCode::kOk) {
      step.error = Status(code, in.Text(kUnlimited));
      step.ranks.resize(in.Count(sizeof(uint32_t), kUnlimited));
      for (uint32_t& rank : step.ranks) rank = in.Number<uint32_t>();
    }
    size_t entries = in.Count(8, kUnlimited);
    for (size_t j = 0; j < entries && in.ok(); ++j) {
      PlannedEntry& entry = step.entries.emplace_back();
      entry.id = in.Number<uint32_t>();
      entry.name = in.Text(kMaxNameBytes);
    }
  }
  return message;
}

void Write(Writer& out, const AttachedMessage& message) {
  out.Number(static_cast<uint8_t>(message.arena));
}
void Write(Writer& out, const BeginMessage& message) {
  out.Number(static_cast<uint8_t>(message.arena));
  out.Number(message.lanes);
}
void Write(Writer&, const LeaveMessage&) {}
void Write(Writer&, const GoodbyeMessage&) {}
void Write(Writer& out, const AbortMessage& message) { out.Text(message.reason); }

void Write(Writer& out, const WithdrawMessage& message) {
  out.Number(static_cast<uint32_t>(message.steps.size()));
  for (uint64_t step : message.steps) out.Number(step);
}

WithdrawMessage ReadWithdraw(Reader& in) {
  WithdrawMessage message;
  message.steps.resize(in.Count(sizeof(uint64_t), kUnlimited));
  for (uint64_t& step : message.steps) step = in.Number<uint64_t>();
  return message;
}

Message ReadBody(size_t type, Reader& in) {
  switch (type) {
    case 0:
      return ReadReady(in);
    case 1:
      return ReadPlan(in);
    case 2:
      return AttachedMessage{in.Enum<uint8_t>(2) != 0};
    case 3: {
      BeginMessage message;
      message.arena = in.Enum<uint8_t>(2) != 0;
      message.lanes = in.Number<uint32_t>();
      return message;
    }
    case 4:
      return LeaveMessage{};
    case 5:
      return GoodbyeMessage{};
    case 6:
      return AbortMessage{in.Text(kUnlimited)};
    case 7:
      return ReadWithdraw(in);
    default:
      in.Reject();
      return LeaveMessage{};
  }
}

}  // namespace

std::string Encode(const Message& message) {
  Writer out;
  out.Number(kMagic);
  out.Number(kVersion);
  out.Number(static_cast<uint8_t>(message.index()));
  std::visit([&out](const auto& body) { Write(out, body); }, message);
  return out.Take();
}

Result<Message> Decode(std::string_view bytes) {
  Reader in(bytes);
  if (in.Number<uint16_t>() != kMagic) {
    return InvalidArgument("a control message does not start with the magic of tf_fasthvd");
  }
  uint8_t version = in.Number<uint8_t>();
  if (version != kVersion) {
    return InvalidArgument("a control message has version " + std::to_string(version) + ", not " +
                           std::to_string(kVersion) + "; install the same tf_fasthvd on all ranks");
  }
  size_t type = in.Number<uint8_t>();
  Message message = ReadBody(type, in);
  if (!in.done()) {
    return InvalidArgument("a control message of type " + std::to_string(type) + " and " +
                           std::to_string(bytes.size()) + " bytes is malformed");
  }
  return message;
}

}  // namespace fasthvd
