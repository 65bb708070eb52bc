#include "runtime/lanes/local_executor.h"

#include <cstring>

namespace fasthvd {

void LocalExecutor::Run(StripeQueue* queue) {
  while (std::optional<Stripe> stripe = queue->Pop()) {
    const Batch& batch = *stripe->batch;
    const ReduceSpec& reduce = batch.reduce();
    batch.ForEachPiece(stripe->begin, stripe->end,
                       [&](const char* input, char* output, size_t bytes, size_t) {
                         if (batch.kind() == CollectiveKind::kAllreduce) {
                           const void* source = input;
                           Reduce(reduce, &source, 1, output, bytes / SizeOf(reduce.dtype));
                         } else if (input != output) {
                           std::memcpy(output, input, bytes);
                         }
                       });
    stripe->batch->StripeDone(Status::Ok());
  }
}

}  // namespace fasthvd
