"""The systems that are compared, and how each one's job is started."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

OURS = "fasthvd"

_MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none")


@dataclasses.dataclass(frozen=True)
class System:
    """A package in a virtual environment, with the launcher and settings to measure it under.

    Attributes:
        name: What flags and results call it.
        label: What tables and plots call it.
        venv: The folder of its virtual environment.
        module: The package, as the worker program imports it.
        launcher: The command that takes `-np N program…`; a name without a slash is looked up on a
            PATH that starts with the venv's own programs.
        env: Settings on top of the caller's environment.
    """

    name: str
    label: str
    venv: pathlib.Path
    module: str
    launcher: tuple[str, ...]
    env: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def python(self) -> pathlib.Path:
        """The interpreter that runs the worker program."""
        return self.venv / "bin" / "python"

    def command(self, ranks: int, program: list[str]) -> list[str]:
        """Returns the command that runs `python program…` on this many ranks."""
        return [*self.launcher, "-np", str(ranks), str(self.python), *program]

    def environment(self) -> dict[str, str]:
        """Returns the environment to start the launcher with."""
        return {
            **os.environ,
            "PATH": f"{self.venv / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "CUDA_VISIBLE_DEVICES": "-1",
            **self.env,
        }

    def why_unusable(self) -> str | None:
        """Returns what keeps the system from running here, and the remedy; None if nothing."""
        remedy = "run `make install`" if self.name == OURS else "run benchmarks/make_peer_venv.sh"
        if not self.python.exists():
            return f"{self.venv} is missing: {remedy}"
        environment = self.environment()
        if not shutil.which(self.launcher[0], path=environment["PATH"]):
            return f"{self.launcher[0]} is not installed: {remedy}"
        # From the venv's folder, where no source tree can be taken for the installed package.
        imported = subprocess.run(
            [self.python, "-c", f"import {self.module}"],
            cwd=self.venv,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if imported.returncode:
            reason = (imported.stderr.strip().splitlines() or ["no reason given"])[-1]
            return f"`import {self.module}` fails ({reason}): {remedy}"
        return None


_PEER_VENV = ROOT / ".venv-horovod"
_MPI_ENV = {"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi"}

SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System(OURS, "tf_fasthvd", ROOT / ".venv", "tf_fasthvd", ("horovodrun",)),
        System("gloo", "Horovod Gloo", _PEER_VENV, "horovod.tensorflow", ("horovodrun", "--gloo")),
        System("mpi", "Horovod MPI", _PEER_VENV, "horovod.tensorflow", _MPIRUN, _MPI_ENV),
        System(
            "mpi-yield",
            "Horovod MPI, yield",
            _PEER_VENV,
            "horovod.tensorflow",
            _MPIRUN,
            {**_MPI_ENV, "OMPI_MCA_mpi_yield_when_idle": "1"},
        ),
    )
}
