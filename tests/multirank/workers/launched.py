"""Says where it is, and reduces once."""

from __future__ import annotations

import os
import sys

import checks
import numpy as np

import tf_fasthvd as hvd

hvd.init()
place = [
    hvd.rank(),
    hvd.size(),
    hvd.local_rank(),
    hvd.local_size(),
    hvd.cross_rank(),
    hvd.cross_size(),
]
checks.note("place", place)
checks.note("sum", float(hvd.allreduce(np.float64(hvd.rank() + 1), op=hvd.Sum)))
checks.note("homogeneous", hvd.is_homogeneous())
exit_code = int(sys.argv[1]) if len(sys.argv) > 1 else 0
if exit_code and hvd.rank() == hvd.size() - 1:
    sys.stdout.flush()
    os._exit(exit_code)
