from __future__ import annotations

import pytest

from tf_fasthvd import runner


@pytest.mark.parametrize(
    ("mpi", "jsrun", "started"),
    [(False, False, "gloo"), (True, False, "mpi"), (False, True, "jsrun")],
)
def test_controller(mpi, jsrun, started):
    seen = []
    runner.run_controller(
        False,
        lambda: seen.append("gloo"),
        mpi,
        lambda: seen.append("mpi"),
        jsrun,
        lambda: seen.append("jsrun"),
        None,
    )
    assert seen == [started]


def test_failures_are_one_sentence(monkeypatch, capsys):
    launch = pytest.importorskip("horovod.runner.launch")

    def fail():
        raise RuntimeError("a rank failed")

    monkeypatch.setattr(launch, "run_commandline", fail)
    with pytest.raises(SystemExit) as end:
        runner.main()
    assert end.value.code == 1
    assert capsys.readouterr().err == "horovodrun: a rank failed\n"
