"""What scripts written for Horovod ask about its build, and the place in the job as tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tf_fasthvd import _context


def mpi_enabled() -> bool:
    """False: no collective runs over MPI, also in jobs that mpirun started."""
    _context.context.topology  # noqa: B018 (raises before init())
    return False


def mpi_built(verbose: bool = False) -> bool:
    """False: this package does not link against MPI."""
    return False


def mpi_threads_supported() -> bool:
    """False: MPI is not used."""
    _context.context.topology  # noqa: B018
    return False


def gloo_enabled() -> bool:
    """True: this package's own collectives take the place of Gloo."""
    _context.context.topology  # noqa: B018
    return True


def gloo_built(verbose: bool = False) -> bool:
    """True: this package's own collectives take the place of Gloo."""
    return True


def nccl_built(verbose: bool = False) -> int:
    """0: NCCL is not used."""
    return 0


def cuda_built(verbose: bool = False) -> bool:
    """False: tensors of a GPU pass through the memory of the host."""
    return False


def rocm_built(verbose: bool = False) -> bool:
    """False: tensors of a GPU pass through the memory of the host."""
    return False


def ddl_built(verbose: bool = False) -> bool:
    """False: DDL is not used."""
    return False


def ccl_built(verbose: bool = False) -> bool:
    """False: oneCCL is not used."""
    return False


def _place_op(read: Callable[[], int], name: str | None) -> tf.Tensor:
    """An op that reads a part of the place when it runs, not when it is traced."""
    read()  # Raises before init().
    value = tf.numpy_function(lambda: np.int32(read()), [], tf.int32, name=name)
    value.set_shape(())
    return value


def rank_op(name: str | None = None) -> tf.Tensor:
    """`rank()` as a tensor, read when the op runs."""
    return _place_op(_context.rank, name)


def size_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """`size()` as a tensor, read when the op runs."""
    _check_global(process_set_id)
    return _place_op(_context.size, name)


def local_rank_op(name: str | None = None) -> tf.Tensor:
    """`local_rank()` as a tensor, read when the op runs."""
    return _place_op(_context.local_rank, name)


def local_size_op(name: str | None = None) -> tf.Tensor:
    """`local_size()` as a tensor, read when the op runs."""
    return _place_op(_context.local_size, name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """1 if this rank is in the process set, as a tensor; every rank is in the global one."""
    _check_global(process_set_id)
    return _place_op(lambda: int(_context.rank() >= 0), name)


def _check_global(process_set_id: int) -> None:
    if process_set_id != 0:
        raise NotImplementedError("process sets other than the global one are not supported yet.")
