"""Loads the native library, which is both a TensorFlow op library and a C interface."""

from __future__ import annotations

import ctypes
import functools
import os
from dataclasses import dataclass
from types import ModuleType

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
LIBRARY_PATH = os.path.join(_PACKAGE, "libtf_fasthvd_ops.so")
LANE_PROGRAM_PATH = os.path.join(_PACKAGE, "fasthvd_lane")
REBUILD = (
    "rebuild it, in its sources, with "
    "`pip install --no-build-isolation --force-reinstall --no-deps .`"
)


@dataclass(frozen=True)
class NativeLibrary:
    """The two faces of the native library.

    Attributes:
        ops: The generated Python wrappers of the TensorFlow ops.
        c: The C interface, with argument and result types declared.
    """

    ops: ModuleType
    c: ctypes.CDLL


def check_tensorflow_version(built: str, installed: str) -> None:
    """Raises an ImportError that tells the remedy unless both are the same release.

    The op library uses TensorFlow's C++ interface, which changes from one minor release to the
    next and is kept within one.
    """
    if built.split(".")[:2] != installed.split(".")[:2]:
        raise ImportError(
            f"tf_fasthvd was built for TensorFlow {built} but TensorFlow {installed} is installed; "
            f"install tensorflow=={built}, or {REBUILD}."
        )


def _missing(library: str) -> str:
    """What to do where there is no library: for a source tree, something else than to rebuild."""
    sources = os.path.dirname(os.path.dirname(library))
    if os.path.exists(os.path.join(sources, "setup.py")):
        # Python puts the folder it starts in, or that of the script, before what is installed.
        return (
            f"tf_fasthvd was imported from its sources in {sources}, where nothing is built; start "
            "Python in another folder to use the installed package, and install it first if you "
            "have not (README.md tells how)."
        )
    return f"tf_fasthvd's native library is missing ({library}); {REBUILD}."


@functools.cache
def load() -> NativeLibrary:
    """Loads the library on the first call; every later call returns the same object.

    Raises:
        ImportError: The library is missing or was built for another TensorFlow.
    """
    import tensorflow as tf

    try:
        from tf_fasthvd import _build_info
    except ImportError:
        _build_info = None
    if _build_info is None or not os.path.exists(LIBRARY_PATH):
        raise ImportError(_missing(LIBRARY_PATH))
    check_tensorflow_version(_build_info.TENSORFLOW_VERSION, tf.__version__)
    try:
        ops = tf.load_op_library(LIBRARY_PATH)
    except tf.errors.NotFoundError as error:
        raise ImportError(
            f"tf_fasthvd's native library does not fit this TensorFlow {tf.__version__}: "
            f"{error.message}; {REBUILD}."
        ) from error
    return NativeLibrary(ops=ops, c=_declare(ctypes.CDLL(LIBRARY_PATH)))


def _declare(c: ctypes.CDLL) -> ctypes.CDLL:
    """Declares the C interface's types; ctypes would take every result for an int."""
    signatures = {
        "fasthvd_listen": (
            ctypes.c_int,
            [*[ctypes.c_char_p] * 4, ctypes.c_int64],
        ),
        "fasthvd_start": (
            ctypes.c_int,
            [ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p],
        ),
        "fasthvd_shutdown": (ctypes.c_int, []),
        "fasthvd_is_running": (ctypes.c_int, []),
        "fasthvd_has_failed": (ctypes.c_int, []),
        "fasthvd_failure_reason": (ctypes.c_char_p, []),
        "fasthvd_last_error": (ctypes.c_char_p, []),
        "fasthvd_buffer_bytes": (ctypes.c_int64, []),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(c, name)
        function.restype = result
        function.argtypes = arguments
    return c
