"""Tensors above 2 GiB, where there is memory for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import Job

_AVAILABLE_KIB = next(
    int(line.split()[1])
    for line in Path("/proc/meminfo").read_text().splitlines()
    if line.startswith("MemAvailable")
)

JOBS = [Job("large.py", 2)]

pytestmark = pytest.mark.skipif(_AVAILABLE_KIB < 16 << 20, reason="needs 16 GiB of free memory")


def test_large(problems):
    assert not problems, problems
