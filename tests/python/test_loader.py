from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tf_fasthvd import _loader


@pytest.mark.parametrize("installed", ["2.21.0", "2.21.3", "2.21.0-rc1"])
def test_releases_that_fit(installed):
    _loader.check_tensorflow_version("2.21.0", installed)


@pytest.mark.parametrize("installed", ["2.20.0", "2.22.0", "3.21.0", "2.2.1"])
def test_releases_that_do_not_fit(installed):
    with pytest.raises(ImportError, match=f"TensorFlow 2.21.0 but TensorFlow {installed}.*install"):
        _loader.check_tensorflow_version("2.21.0", installed)


def test_missing_library(monkeypatch):
    monkeypatch.setattr(_loader, "LIBRARY_PATH", "/nowhere/lib.so")
    with pytest.raises(ImportError, match=r"missing \(/nowhere/lib.so\); rebuild"):
        _loader.load.__wrapped__()


def test_missing_lane_program(tmp_path):
    code = """
import pytest
from tf_fasthvd import _context
_context.LANE_PROGRAM_PATH = "/nowhere/fasthvd_lane"
with pytest.raises(RuntimeError, match="'/nowhere/fasthvd_lane' cannot be started .*install"):
    _context.init()
"""
    environment = {**os.environ, "FASTHVD_LANE_HOST": "process"}
    job = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,  # Here the sources would be found first.
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stderr


def test_the_lane_program_is_installed():
    assert os.access(_loader.LANE_PROGRAM_PATH, os.X_OK)


def test_source_folder(tmp_path):
    """Python started in the folder of the sources, where no library is."""
    package = Path(_loader.__file__).parent
    ignored = shutil.ignore_patterns("*.so", "_build_info.py", "__pycache__")
    shutil.copytree(package, tmp_path / "tf_fasthvd", ignore=ignored)
    (tmp_path / "setup.py").touch()
    ended = subprocess.run(
        [sys.executable, "-c", "import tf_fasthvd; tf_fasthvd.init()"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode != 0
    message = ended.stderr.splitlines()[-1]
    assert f"imported from its sources in {tmp_path}" in message
    assert "start Python in another folder" in message and "install" in message


def test_every_op_has_its_wrapper():
    ops = _loader.load().ops
    assert {"fasthvd_allreduce", "fasthvd_broadcast", "fasthvd_barrier"} <= set(dir(ops))


def test_importing_the_package_is_cheap():
    code = "import sys, tf_fasthvd, tf_fasthvd.runner; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
