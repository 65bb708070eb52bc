"""One fault in a job; the argument names it."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from pathlib import Path

import checks
import numpy as np

import tf_fasthvd as hvd


def note_error(error: Exception) -> None:
    checks.note("raised", f"{type(error).__name__}: {error}")
    checks.note("raised at", time.time())


def allreduce_until_error() -> None:
    own = np.ones(8 << 20, np.float32)
    try:
        while True:
            hvd.allreduce(own, op=hvd.Sum, name="in the middle")
    except Exception as error:
        note_error(error)
        try:
            hvd.allreduce(1.0, name="later")
        except Exception as later:
            checks.note("later", type(later).__name__)
        raise


def killed() -> None:
    """Rank 1 is killed in the middle of an allreduce."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # The launcher ends the others at once.
    hvd.init()
    hvd.allreduce(1.0)
    if hvd.rank() == 1:

        def kill() -> None:
            time.sleep(0.5)
            checks.note("killed at", time.time())
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=kill).start()
    allreduce_until_error()


def killed_with_a_child() -> None:
    """Rank 1 has forked a child, which outlives it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hvd.init()
    hvd.allreduce(1.0)
    end = Path(os.environ["FASTHVD_TEST_NOTES"]) / "end"
    if hvd.rank() == 1:
        os.mkfifo(end)
        if os.fork() == 0:
            end.read_bytes()  # Until the other rank has opened it and is gone.
            checks.note("outlived", True, rank=2)
            os._exit(0)
        checks.note("killed at", time.time())
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        allreduce_until_error()
    finally:
        end.write_text("")


def killed_in_fit() -> None:
    """Rank 1 is killed in the middle of Keras's training."""
    import keras

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hvd.init()
    model = keras.Sequential([keras.Input([512]), keras.layers.Dense(512), keras.layers.Dense(512)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam()), "mse")

    class Kill(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 20 and hvd.rank() == 1:
                checks.note("killed at", time.time())
                os.kill(os.getpid(), signal.SIGKILL)

    x = np.ones([64_000, 512], np.float32)
    try:
        model.fit(x, x, batch_size=32, verbose=0, callbacks=[Kill()])
    except Exception as error:
        note_error(error)
        raise


def raises() -> None:
    """Rank 1 raises and exits while the others wait for it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hvd.init()
    hvd.allreduce(1.0)
    if hvd.rank() == 1:
        checks.note("killed at", time.time())
        raise RuntimeError("the fault of rank 1")
    allreduce_until_error()


def leaves() -> None:
    """Rank 1 calls shutdown() and goes on alone; rank 0 has one more call, without a name."""
    hvd.init()
    hvd.allreduce(1.0)
    if hvd.rank() == 1:
        hvd.shutdown()
        checks.note("killed at", time.time(), rank=1)
        time.sleep(3)
        return
    try:
        hvd.allreduce(np.ones(1000, np.float32))
    except Exception as error:
        note_error(error)


def missing() -> None:
    """Rank 1 never calls init()."""
    rank = int(os.environ["HOROVOD_RANK"])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if rank == 1:
        time.sleep(20)
        sys.exit(3)
    hvd.keras  # noqa: B018 (loads TensorFlow, which takes longer than the ranks wait)
    start = time.monotonic()
    try:
        hvd.init()
    except Exception as error:
        checks.note("raised", f"{type(error).__name__}: {error}", rank)
        checks.note("after", time.monotonic() - start, rank)
        raise


def lane_killed() -> None:
    """The lane process of rank 1 is killed in the middle of an allreduce."""
    hvd.init()
    hvd.allreduce(1.0)
    if hvd.rank() == 1:
        (pid,) = checks.lane_processes()

        def kill() -> None:
            time.sleep(0.5)
            checks.note("killed at", time.time())
            os.kill(pid, signal.SIGKILL)

        threading.Thread(target=kill).start()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    allreduce_until_error()


def lane_killed_while_idle() -> None:
    """The same, but nothing is under way; only rank 0 waits for something."""
    hvd.init()
    hvd.barrier()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if hvd.rank() == 1:
        (pid,) = checks.lane_processes()
        ended = os.pidfd_open(pid)
        checks.note("killed at", time.time())
        os.kill(pid, signal.SIGKILL)
        select.select([ended], [], [])
    allreduce_until_error()


def orphans_lanes() -> None:
    """All ranks are killed, in the worst case for their lane processes.

    The thread that called init() has ended long ago, and a process that was forked later has copies
    of all descriptors.
    """
    starter = threading.Thread(target=hvd.init)
    starter.start()
    starter.join()
    result = hvd.allreduce(np.ones(100_000, np.float32), op=hvd.Sum)
    assert float(result[-1]) == hvd.size()
    checks.note("lanes", checks.lane_processes())
    if os.fork() == 0:
        os.closerange(0, 3)  # The launcher waits for the end of its pipes.
        signal.alarm(15)
        signal.pause()
    hvd.barrier()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    checks.note("killed at", time.time())
    os.kill(os.getpid(), signal.SIGKILL)


def lanes_in_order() -> None:
    """Lanes are hosted by processes twice, and leave nothing."""
    rank = int(os.environ["HOROVOD_RANK"])
    for i in range(2):
        hvd.init()
        lanes = checks.lane_processes()
        hvd.allreduce(np.ones(100_000, np.float32))
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in lanes]
        checks.note(f"titles {i}", commands, rank)
        status = [Path(f"/proc/{pid}/status").read_text().split() for pid in lanes]
        cpus = [words[words.index("Cpus_allowed_list:") + 1] for words in status]
        checks.note(f"cpus {i}", cpus, rank)
        hvd.shutdown()
        left = [pid for pid in lanes if Path(f"/proc/{pid}").exists()]  # Zombies too.
        checks.note(f"left {i}", left, rank)


def starts_again() -> None:
    """init() and shutdown() three times, and once more where the first init() of a time fails."""
    for i in range(3):
        hvd.init()
        hvd.init()
        result = hvd.allreduce(np.full(100_000, i + 1.0, np.float32), op=hvd.Sum)
        assert float(result[-1]) == hvd.size() * (i + 1), result
        hvd.shutdown()
        hvd.shutdown()
        assert not hvd.is_initialized()
        try:
            hvd.rank()
        except ValueError:
            pass
        else:
            raise AssertionError("rank() after shutdown()")
    descriptors = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    ours = ("/memfd:", "socket:", "anon_inode:[pidfd]")
    left = [str(name) for name in descriptors if str(name).startswith(ours)]
    threads = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    left += [name for name in threads if "fasthvd" in name]
    checks.note("left", left, int(os.environ["HOROVOD_RANK"]))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
