"""Says whether TensorFlow's idle threads poll, and what was configured otherwise."""

from __future__ import annotations

import sys

import checks
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

import tf_fasthvd as hvd

case = sys.argv[1]
if case == "used":
    tf.ones(3)
elif case == "configured":  # A TensorFlow 1 script that turns eager execution on.
    tf.compat.v1.disable_eager_execution()
    tf.compat.v1.enable_eager_execution(tf.compat.v1.ConfigProto(inter_op_parallelism_threads=3))
hvd.init()
if case != "used":  # May be set only before TensorFlow starts.
    tf.config.threading.set_intra_op_parallelism_threads(2)
config = context.context().config
checks.note("spins", not config.experimental.disable_thread_spinning)
checks.note("threads", [config.inter_op_parallelism_threads, config.intra_op_parallelism_threads])
checks.note("sum", float(hvd.allreduce(np.float64(hvd.rank() + 1), op=hvd.Sum)))
