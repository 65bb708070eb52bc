"""Synchronous data-parallel training for TensorFlow and Keras, in the way of Horovod.

    import tf_fasthvd as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(1e-3 * hvd.size()))
    model.compile(optimizer, loss=...)
    model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

Names are looked up when they are first used, so that `import tf_fasthvd` alone (which the launcher
does in every process that it starts) loads neither TensorFlow nor the native library.
"""

import importlib
from typing import Any

_CONTEXT = (
    "init shutdown is_initialized rank size local_rank local_size cross_rank cross_size "
    "is_homogeneous"
)
_QUERIES = (
    "mpi_enabled mpi_built mpi_threads_supported gloo_enabled gloo_built nccl_built cuda_built "
    "rocm_built ddl_built ccl_built rank_op size_op local_rank_op local_size_op "
    "process_set_included_op"
)
_SOURCES = {
    "_context": _CONTEXT,
    "_queries": _QUERIES,
    "_reduce_ops": "ReduceOp Average Sum Min Max Product Adasum",
    "_process_sets": "ProcessSet global_process_set add_process_set remove_process_set",
    "_compression": "Compression",
    "_collectives": "allreduce grouped_allreduce broadcast barrier",
    "_variables": "broadcast_ broadcast_variables",
    "_optimizer": "DistributedOptimizer",
    "_tape": "DistributedGradientTape",
    "_errors": "HorovodInternalError",
}
_MODULE_OF = {name: module for module, names in _SOURCES.items() for name in names.split()}
_SUBMODULES = ("callbacks", "keras")

__all__ = ["__version__", *_MODULE_OF, *_SUBMODULES]  # noqa: PLE0604 (all are strings)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = importlib.import_module("._version", __name__).version()
    elif name in _SUBMODULES:
        value = importlib.import_module(f".{name}", __name__)
    elif name in _MODULE_OF:
        value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
