"""Builds tf_fasthvd: Bazel makes the native parts, setuptools packs them with the Python ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # Before setuptools 70 the package wheel has it.
    from wheel.bdist_wheel import bdist_wheel

_ROOT = Path(__file__).resolve().parent

# What Bazel makes, and the folder of bazel-bin where it leaves it. All go into the package.
_NATIVE = {
    "//:libtf_fasthvd_ops.so": "libtf_fasthvd_ops.so",
    "//runtime/lane_program:fasthvd_lane": "runtime/lane_program/fasthvd_lane",
}


class BuildWithBazel(build_py):
    """Adds the native parts, and a note of what they were built for, to the package."""

    def run(self) -> None:
        """Builds the native parts, then the package around them."""
        _check_tools()
        tensorflow = _describe_tensorflow()
        # An older build may have left modules here that are gone from the sources.
        shutil.rmtree(Path(self.build_lib, "tf_fasthvd"), ignore_errors=True)
        super().run()

        in_place = getattr(self, "editable_mode", False)
        package = _ROOT / "tf_fasthvd" if in_place else Path(self.build_lib, "tf_fasthvd")
        for built in _build_native(tensorflow["version"]):
            target = package / built.name
            target.unlink(missing_ok=True)  # Bazel's files are read-only, and so is their copy.
            shutil.copy(built, target)
        (package / "_build_info.py").write_text(
            '"""What this build of tf_fasthvd is for. Written by setup.py."""\n\n'
            f'TENSORFLOW_VERSION = "{tensorflow["version"]}"\n'
        )


class PlatformWheel(bdist_wheel):
    """A wheel for this platform and any Python: the op library does not use Python's API."""

    def get_tag(self) -> tuple[str, str, str]:
        """Returns the tag: the platform's own, for each Python 3."""
        return "py3", "none", super().get_tag()[2]


class NativeDistribution(Distribution):
    """Tells setuptools that the package is not pure Python."""

    def has_ext_modules(self) -> bool:
        """Returns True: Bazel builds them, so setuptools does not see any."""
        return True


def _check_tools() -> None:
    """Ends the build with one sentence if a tool is missing."""
    for command, package in (("bazel", "bazel-bootstrap"), ("g++", "build-essential")):
        if shutil.which(command) is None:
            _fail(
                f"{command} was not found; install it (on Debian and Ubuntu: "
                f"sudo apt-get install {package}) and try again."
            )


def _describe_tensorflow() -> dict[str, str]:
    """Returns what describe.py tells about the TensorFlow of this Python."""
    script = _ROOT / "third_party" / "tensorflow" / "describe.py"
    asked = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    if asked.returncode != 0:
        _fail((asked.stderr.strip().splitlines() or ["TensorFlow cannot be imported."])[-1])
    return json.loads(asked.stdout.splitlines()[-1])


def _build_native(tensorflow_version: str) -> list[Path]:
    """Builds the native parts against this Python's TensorFlow and returns their files."""
    environment = {
        **os.environ,
        "FASTHVD_PYTHON": sys.executable,
        "FASTHVD_TENSORFLOW": tensorflow_version,  # Makes Bazel notice another version.
    }

    def bazel(*arguments: str, output: int | None = None) -> str | None:
        return subprocess.run(
            ["bazel", *arguments],
            cwd=_ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            text=True,
            check=True,
        ).stdout

    try:
        bazel("build", *_NATIVE)
        # The link bazel-bin may belong to a build with other options, so ask.
        folder = bazel("info", "bazel-bin", output=subprocess.PIPE)
    except subprocess.CalledProcessError:
        _fail("Bazel could not build the native parts; what it says is above.")
    return [Path(folder.strip(), path) for path in _NATIVE.values()]


def _fail(sentence: str) -> NoReturn:
    raise SystemExit(f"tf_fasthvd: {sentence}") from None


setup(
    cmdclass={"build_py": BuildWithBazel, "bdist_wheel": PlatformWheel},
    distclass=NativeDistribution,
)
