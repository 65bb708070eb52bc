"""Tells where the TensorFlow of the running Python is, and how to compile against it.

Prints one JSON object. Used by setup.py and by the repository rule beside this file.
"""

import json
import os
import sys


def describe() -> dict[str, object]:
    """Returns TensorFlow's version, folders and compile flags."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # Its greetings are of no use here.
    import tensorflow as tf

    flags = tf.sysconfig.get_compile_flags()
    return {
        "version": tf.__version__,
        "include": tf.sysconfig.get_include(),
        "lib": tf.sysconfig.get_lib(),
        "defines": [flag[2:] for flag in flags if flag.startswith("-D")],
        "framework": _framework_library(tf.sysconfig.get_link_flags()),
    }


def _framework_library(link_flags: list[str]) -> str:
    """Returns the file name in the flag `-l:libtensorflow_framework.so.2`."""
    return next(flag[3:] for flag in link_flags if flag.startswith("-l:"))


if __name__ == "__main__":
    try:
        print(json.dumps(describe()))
    except ImportError as error:
        sys.exit(
            f"TensorFlow cannot be imported by {sys.executable} ({error}). Install the TensorFlow "
            "you train with first (for example: pip install tensorflow), then build with "
            "--no-build-isolation."
        )
