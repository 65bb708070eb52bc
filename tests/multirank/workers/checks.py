"""For worker scripts: runs their checks and reports to the test process."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tf_fasthvd as hvd

# Keras imports these where they are installed (the example needs them), but no worker uses them,
# and they take every rank one to two seconds. Workers import this module before Keras.
sys.modules.update(dict.fromkeys(("matplotlib", "pandas", "scipy", "sklearn")))


def note(name: str, value: Any, rank: int | None = None) -> None:
    """Reports a value of this rank; it survives whatever happens to the process."""
    rank = hvd.rank() if rank is None else rank
    with open(f"{os.environ['FASTHVD_TEST_NOTES']}/{rank}.jsonl", "a") as file:
        file.write(json.dumps([name, value]) + "\n")


def lane_processes() -> list[int]:
    """The lane processes of this rank, lane 0 first."""
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdigit():
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                title = (path / "cmdline").read_bytes().rstrip(b"\0").decode()
                if parent == os.getpid() and title.startswith("fasthvd-lane"):
                    found.append((title, int(path.name)))
    return [pid for _, pid in sorted(found)]


def needs(ranks: int) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Marks a check that only makes sense with so many ranks or more."""

    def mark(function: Callable[[], None]) -> Callable[[], None]:
        function.needs = ranks
        return function

    return mark


def run_all(namespace: dict[str, Any]) -> None:
    """Runs the functions named check_*, or those of the command line; pass `globals()`."""
    hvd.init()
    for name in sys.argv[1:] or [name for name in namespace if name.startswith("check_")]:
        function = namespace[name]
        if hvd.size() < getattr(function, "needs", 1):
            note(name, "skipped")
            continue
        problem = ""
        try:
            function()
        except Exception:
            problem = traceback.format_exc()
        note(name, problem)
        hvd.barrier(name=f"after {name}")
    hvd.shutdown()
