"""The Keras flavour of the interface: `import tf_fasthvd.keras as hvd`.

All names are those of `tf_fasthvd`; only the collectives differ: they take what NumPy takes and
return NumPy arrays, and their arguments are in the order of `horovod.keras`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tf_fasthvd import (
    Adasum,
    Average,
    Compression,
    DistributedOptimizer,
    Max,
    Min,
    Product,
    ReduceOp,
    Sum,
    _collectives,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    global_process_set,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    shutdown,
    size,
)
from tf_fasthvd._compression import Compressor
from tf_fasthvd.keras import callbacks

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Max",
    "Min",
    "Product",
    "ReduceOp",
    "Sum",
    "allreduce",
    "broadcast",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
]


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: ReduceOp | None = None,
    compression: type[Compressor] = Compression.none,
) -> np.ndarray:
    """Combines a value of all ranks; see `tf_fasthvd.allreduce` for the arguments."""
    return _collectives.allreduce(
        value,
        average=average,
        compression=compression,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        name=name,
    ).numpy()


def broadcast(value: Any, root_rank: int, name: str | None = None) -> np.ndarray:
    """Returns the value of rank `root_rank` on all ranks."""
    return _collectives.broadcast(value, root_rank, name=name).numpy()
