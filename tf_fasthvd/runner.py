"""The commands `horovodrun` and `fasthvdrun`: Horovod's launcher for jobs of this package.

Horovod's launcher is pure Python and does all that is needed, but refuses to start where
Horovod's own native parts are missing. Here it is told that they are not needed.

Nothing of TensorFlow may be imported by this module: the launcher starts processes that import it
again.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from typing import Any, NoReturn


def main() -> None:
    """Runs the command line. Exits with 1 if the job failed."""
    try:
        from horovod.runner import launch
    except ImportError as error:
        _fail(
            f"horovodrun needs the package horovod, whose launcher it uses ({error}); install it "
            "with `HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 "
            "HOROVOD_WITHOUT_MXNET=1 pip install horovod==0.28.1`, or start the job with mpirun."
        )
    launch.gloo_built = lambda verbose=False: True
    launch.run_controller = run_controller
    launch.check_build = check_build
    try:
        launch.run_commandline()
    except (RuntimeError, ValueError) as error:
        _fail(str(error).strip())


def run_controller(
    use_gloo: bool,
    gloo_run: Callable[[], None],
    use_mpi: bool,
    mpi_run: Callable[[], None],
    use_jsrun: bool,
    js_run: Callable[[], None],
    verbosity: Any,
) -> None:
    """Starts the workers: with Gloo's rendezvous unless MPI or jsrun is asked for."""
    if use_mpi:
        mpi_run()
    elif use_jsrun:
        js_run()
    else:
        gloo_run()


def check_build(verbose: bool) -> NoReturn:
    """Prints what this build can do, and exits: with 1 if it cannot be loaded."""
    from tf_fasthvd._version import version

    try:
        from tf_fasthvd import _build_info

        built_for = f"built for TensorFlow {_build_info.TENSORFLOW_VERSION}"
    except ImportError:
        built_for = "not built"
    problem = _loading_problem()
    print(f"tf_fasthvd {version()}, {built_for}:\n")
    frameworks = {"TensorFlow, Keras 3": not problem, "PyTorch": False, "MXNet": False}
    _print_section("Frameworks", frameworks)
    _print_section(
        "Launchers",
        {
            "horovodrun (Gloo rendezvous)": True,
            "mpirun, also as horovodrun --mpi": shutil.which("mpirun") is not None,
            "srun": shutil.which("srun") is not None,
            "mpi4py, to meet across hosts without FASTHVD_RENDEZVOUS": _has_module("mpi4py"),
        },
    )
    _print_section(
        "Tensor operations",
        {
            "shared memory (ranks of one host)": not problem,
            "TCP (between hosts)": not problem,
            "NCCL": False,
            "MPI": False,
        },
    )
    if problem:
        _fail(problem)
    sys.exit(0)


def _print_section(title: str, found: dict[str, bool]) -> None:
    print(f"{title}:")
    for name, is_there in found.items():
        print(f"    [{'X' if is_there else ' '}] {name}")
    print()


def _loading_problem() -> str:
    """Why the native library cannot be used, or the empty text."""
    try:
        from tf_fasthvd import _loader

        _loader.load()
    except ImportError as error:
        return str(error)
    return ""


def _has_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _fail(sentence: str) -> NoReturn:
    print(f"horovodrun: {sentence}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
