"""Every way to start a job, and the example under some of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from jobs import BIN, Job, run

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "keras_train.py")

needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")


def assert_good(result, places: list[list[int]]) -> None:
    assert result.code == 0, result.tail()
    for rank, place in enumerate(places):
        notes = result.notes[rank]
        assert notes["place"] == place
        assert notes["sum"] == sum(range(1, len(places) + 1))


def on_one_host(ranks: int) -> list[list[int]]:
    return [[rank, ranks, rank, ranks, 0, 1] for rank in range(ranks)]


def test_no_launcher():
    assert_good(run(Job("launched.py", launcher="")), on_one_host(1))


def test_hosts_of_one_machine():
    job = Job("launched.py", 3, options=("-H", "localhost:2,127.0.0.1:1"))
    result = run(job)
    assert_good(result, [[0, 3, 0, 2, 0, 2], [1, 3, 1, 2, 0, 1], [2, 3, 0, 1, 1, 2]])
    assert not result.notes[0]["homogeneous"]


@needs_mpirun
def test_mpirun():
    assert_good(run(Job("launched.py", 2, launcher="mpirun")), on_one_host(2))


@needs_mpirun
def test_mpirun_without_mpi4py(tmp_path):
    """The ranks of one host then meet at a socket of their own."""
    (tmp_path / "mpi4py.py").write_text("raise ImportError('not here')")
    settings = (("PYTHONPATH", str(tmp_path)),)
    job = Job("launched.py", 2, launcher="mpirun", environment=settings)
    assert_good(run(job), on_one_host(2))


def test_slurm():
    assert_good(run(Job("launched.py", 2, launcher="srun")), on_one_host(2))


@needs_mpirun
def test_mpirun_with_a_meeting_place():
    settings = (("FASTHVD_RENDEZVOUS", "127.0.0.1:29417"),)
    job = Job("launched.py", 2, launcher="mpirun", environment=settings)
    assert_good(run(job), on_one_host(2))


@needs_mpirun
def test_horovodrun_with_mpi():
    options = ("--mpi", "--mpi-args=--allow-run-as-root --oversubscribe")
    assert_good(run(Job("launched.py", 2, options=options)), on_one_host(2))


def test_small_dev_shm():
    """As in containers: the memory that ranks share is not there."""
    mount = 'mount -t tmpfs -o size=1m none /dev/shm && exec "$@"'
    under = ("unshare", "--mount", "sh", "-c", mount, "sh")
    if subprocess.run([*under, "df", "/dev/shm"], capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    result = run(Job("collectives.py", 2, arguments=("check_large_float32",), under=under))
    assert result.code == 0, result.tail()
    assert [result.notes[rank]["check_large_float32"] for rank in range(2)] == ["", ""]
    assert "do not share memory" not in result.output


def test_exit_code_of_a_failed_rank():
    result = run(Job("launched.py", 2, arguments=("7",)))
    assert result.code not in (0, None)
    assert result.notes[0]["place"] == [0, 2, 0, 2, 0, 1]
    assert "Traceback" not in result.output.split("horovodrun:")[-1]


def test_check_build():
    shown = subprocess.run(
        [BIN / "horovodrun", "--check-build"], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    for line in ("[X] TensorFlow", "[ ] PyTorch", "[X] horovodrun", "[X] shared memory", "[X] TCP"):
        assert line in shown.stdout
    assert re.search(r"tf_fasthvd \S+, built for TensorFlow 2\.", shown.stdout)


def test_both_commands_are_installed():
    for name in ("horovodrun", "fasthvdrun"):
        shown = subprocess.run([BIN / name, "--help"], capture_output=True, text=True, check=False)
        assert shown.returncode == 0 and "--num-proc" in shown.stdout


def test_launcher_without_horovod(tmp_path):
    (tmp_path / "horovod.py").write_text("raise ImportError('not here')")
    shown = subprocess.run(
        [BIN / "horovodrun", "-np", "2", "true"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 1
    assert "needs the package horovod" in shown.stderr and "pip install" in shown.stderr


def test_example_reaches_its_accuracy():
    result = run(Job(EXAMPLE, 2, arguments=("--min_accuracy=0.95",)))
    assert result.code == 0, result.tail()
    accuracy = float(re.search(r"test accuracy: ([\d.]+) % of 1000", result.output)[1])
    assert accuracy >= 95
    assert re.search(r"speed: [\d,]+ images/s on 2 rank", result.output)
    assert result.output.count("Epoch 2/") == 1  # The progress bar of one rank.


def test_example_tells_of_a_missed_accuracy():
    arguments = ("--epochs=1", "--steps_per_epoch=2", "--min_accuracy=0.99")
    result = run(Job(EXAMPLE, 1, arguments=arguments, launcher=""))
    assert result.code == 1
    assert "below --min_accuracy=0.99" in result.output


def test_example_refuses_flags_out_of_bounds():
    result = run(Job(EXAMPLE, 1, arguments=("--threads=-1",), launcher=""))
    assert result.code not in (0, None)
    assert "--threads=-1" in result.output and "non-negative" in result.output
