// Shape functions shared by the collectives.
#ifndef FASTHVD_OPS_SHAPES_H_
#define FASTHVD_OPS_SHAPES_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fasthvd {

// Output i has the shape of input i, for as many as there are outputs.
inline absl::Status OutputsLikeTensors(tensorflow::shape_inference::InferenceContext* context) {
  for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, context->input(i));
  return absl::OkStatus();
}

}  // namespace fasthvd

#endif  // FASTHVD_OPS_SHAPES_H_
