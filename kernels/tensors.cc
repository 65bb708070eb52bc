#include "kernels/tensors.h"

#include <utility>

namespace fasthvd {

Result<DataType> FromTensorFlow(tensorflow::DataType dtype) {
  switch (dtype) {
    case tensorflow::DT_UINT8:
      return DataType::kUint8;
    case tensorflow::DT_INT8:
      return DataType::kInt8;
    case tensorflow::DT_UINT16:
      return DataType::kUint16;
    case tensorflow::DT_INT16:
      return DataType::kInt16;
    case tensorflow::DT_UINT32:
      return DataType::kUint32;
    case tensorflow::DT_INT32:
      return DataType::kInt32;
    case tensorflow::DT_UINT64:
      return DataType::kUint64;
    case tensorflow::DT_INT64:
      return DataType::kInt64;
    case tensorflow::DT_HALF:
      return DataType::kFloat16;
    case tensorflow::DT_BFLOAT16:
      return DataType::kBfloat16;
    case tensorflow::DT_FLOAT:
      return DataType::kFloat32;
    case tensorflow::DT_DOUBLE:
      return DataType::kFloat64;
    case tensorflow::DT_BOOL:
      return DataType::kBool;
    default:
      return InvalidArgument("tensors of type " + tensorflow::DataTypeString(dtype) +
                             " cannot be communicated; cast to an integer, float or bool type");
  }
}

void AddTensor(const tensorflow::Tensor& input, tensorflow::Tensor* output, Request* request) {
  Shape shape;
  for (const auto& dimension : input.shape()) shape.push_back(dimension.size);
  request->description.shapes.push_back(std::move(shape));
  request->tensors.push_back({input.data(), output->data()});
}

absl::Status ToTensorFlow(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return absl::OkStatus();
    case StatusCode::kInvalidArgument:
      return absl::InvalidArgumentError(status.message());
    case StatusCode::kFailedPrecondition:
      return absl::FailedPreconditionError(status.message());
    case StatusCode::kUnimplemented:
      return absl::UnimplementedError(status.message());
    case StatusCode::kDeadlineExceeded:
      return absl::DeadlineExceededError(status.message());
    case StatusCode::kPeerLost:
      return absl::InternalError("HorovodInternalError: " + status.message());
    case StatusCode::kInternal:
      return absl::InternalError(status.message());
  }
  return absl::InternalError(status.message());
}

}  // namespace fasthvd
