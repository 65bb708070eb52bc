#include "kernels/collective_kernel.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/results.h"
#include "kernels/tensors.h"
#include "runtime/base/description.h"
#include "runtime/engine/context.h"
#include "runtime/engine/engine.h"

namespace fasthvd {

using tensorflow::CancellationManager;
using tensorflow::CancellationToken;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

CollectiveKernel::CollectiveKernel(OpKernelConstruction* construction)
    : AsyncOpKernel(construction) {
  OP_REQUIRES_OK(construction, construction->GetAttr("tensor_name", &description_.name));
  OP_REQUIRES(construction, !description_.name.empty() && description_.name.size() <= kMaxNameBytes,
              absl::InvalidArgumentError(
                  absl::StrCat("tensor_name must have 1 to ", kMaxNameBytes, " bytes")));
  OP_REQUIRES_OK(construction, construction->GetAttr("process_set_id", &description_.process_set));
  OP_REQUIRES(construction, description_.process_set == 0,
              absl::UnimplementedError("process sets other than the global one (id 0) are not "
                                       "supported yet"));
  if (!construction->HasAttr("N")) return;
  OP_REQUIRES_OK(construction, construction->GetAttr("N", &tensor_count_));
  tensorflow::DataType dtype;
  OP_REQUIRES_OK(construction, construction->GetAttr("T", &dtype));
  Result<DataType> known = FromTensorFlow(dtype);
  OP_REQUIRES_OK(construction, ToTensorFlow(known.status()));
  description_.dtype = *known;
}

void CollectiveKernel::ComputeAsync(OpKernelContext* context, DoneCallback done) {
  std::shared_ptr<Engine> engine = CurrentEngine();
  OP_REQUIRES_ASYNC(context, engine != nullptr,
                    absl::FailedPreconditionError(
                        "tf_fasthvd is not initialised on this rank; call tf_fasthvd.init() first"),
                    done);
  Request request;
  request.description = description_;
  OP_REQUIRES_OK_ASYNC(context, AddTensors(context, &request), done);
  request.step = static_cast<uint64_t>(context->step_id());
  const CancellationToken token = WatchStep(context, engine);
  request.done = [context, token, done = std::move(done)](const Status& status) {
    // The context ends with done(): keep what is needed to get to TensorFlow's thread.
    (*context->runner())([context, token, done, status] {
      if (token != CancellationManager::kInvalidToken) {
        context->cancellation_manager()->DeregisterCallback(token);
      }
      if (!status.ok()) context->CtxFailure(ToTensorFlow(status));
      done();
    });
  };
  engine->Submit(std::move(request));
}

CancellationToken CollectiveKernel::WatchStep(OpKernelContext* context,
                                              std::shared_ptr<Engine> engine) {
  CancellationManager* manager = context->cancellation_manager();
  if (manager == nullptr) return CancellationManager::kInvalidToken;
  auto withdraw = [engine = std::move(engine), step = static_cast<uint64_t>(context->step_id())] {
    engine->WithdrawStep(step);
  };
  const CancellationToken token = manager->get_cancellation_token();
  if (manager->RegisterCallback(token, withdraw)) return token;
  withdraw();  // The step has been cancelled before.
  return CancellationManager::kInvalidToken;
}

absl::Status CollectiveKernel::AddTensors(OpKernelContext* context, Request* request) {
  request->tensors.reserve(tensor_count_);
  for (int i = 0; i < tensor_count_; ++i) {
    const Tensor& input = context->input(i);
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ForwardOrAllocate(context, i, &output));
    AddTensor(input, output, request);
  }
  return absl::OkStatus();
}

}  // namespace fasthvd
