"""Where this process stands in the job, as its launcher tells."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

HOROVODRUN = "horovodrun"
MPI = "mpi"
SLURM = "slurm"
SINGLE = "single process"

# Launcher → variables of rank, size, local rank and local size; the first launcher that matches
# counts. The ones of Slurm are set in batch scripts too, where there is but one process: only
# a step with an id has tasks.
_LAUNCHERS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        HOROVODRUN,
        ("HOROVOD_RANK", "HOROVOD_SIZE"),
        ("HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE"),
    ),
    (
        MPI,
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ),
    (MPI, ("PMI_RANK", "PMI_SIZE"), ("MPI_LOCALRANKID", "MPI_LOCALNRANKS")),
    (SLURM, ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("SLURM_LOCALID",)),
)


@dataclass(frozen=True)
class Topology:
    """The place of one rank; see design.md for the words.

    The fields after `size` are None until `placed` has seen all hosts, where the launcher does not
    tell them.
    """

    launcher: str
    rank: int
    size: int
    local_rank: int | None = None
    local_size: int | None = None
    cross_rank: int | None = None
    cross_size: int | None = None
    homogeneous: bool = True

    def placed(self, hosts: Sequence[str]) -> Topology:
        """The same place with every field known.

        Args:
            hosts: The host of each rank, in rank order.
        """
        host = hosts[self.rank]
        slots = {name: hosts.count(name) for name in dict.fromkeys(hosts)}
        local_rank = hosts[: self.rank].count(host)
        peers = [name for name, count in slots.items() if count > local_rank]

        def known(value: int | None, computed: int) -> int:
            return computed if value is None else value

        return replace(
            self,
            local_rank=known(self.local_rank, local_rank),
            local_size=known(self.local_size, slots[host]),
            cross_rank=known(self.cross_rank, peers.index(host)),
            cross_size=known(self.cross_size, len(peers)),
            homogeneous=len(set(slots.values())) == 1,
        )


def detect(environment: Mapping[str, str] = os.environ) -> Topology:
    """The place that the launcher's environment variables tell; a single process without any.

    Raises:
        ValueError: The variables are incomplete or not a place.
    """
    for launcher, required, optional in _LAUNCHERS:
        if launcher == SLURM and "SLURM_STEP_ID" not in environment:
            continue
        if not any(name in environment for name in required):
            continue
        rank, size = (_number(environment, name) for name in required)
        if not 0 <= rank < size:
            raise ValueError(
                f"{required[0]}={rank} and {required[1]}={size} are not a rank and a number of "
                f"ranks; start the script with horovodrun, mpirun or srun, or unset both."
            )
        others = (_number(environment, name) if name in environment else None for name in optional)
        place = Topology(launcher, rank, size, *others)
        if launcher == SLURM and environment.get("SLURM_STEP_NUM_NODES") == "1":
            place = replace(place, local_size=size)  # Slurm has no variable for it.
        return place
    return Topology(SINGLE, 0, 1)


def host_name(environment: Mapping[str, str] = os.environ) -> str:
    """A name that is the same for the ranks of one host and differs between hosts.

    horovodrun gives one. Elsewhere the host's own name is not enough (many are called
    "localhost"), so a part of the kernel's boot id is added.
    """
    name = environment.get("HOROVOD_HOSTNAME")
    if name:
        return name
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{socket.gethostname()}-{file.read(8)}"
    except OSError:
        return socket.gethostname()


def job_id(environment: Mapping[str, str] = os.environ) -> str:
    """A text that only the ranks of this job on this host share."""
    for names in (
        ("PMIX_NAMESPACE",),
        ("OMPI_MCA_ess_base_jobid",),
        ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ):
        if all(name in environment for name in names):
            return "-".join(environment[name] for name in names)
    return f"child-of-{os.getppid()}"


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name)
    if text is None:
        raise ValueError(
            f"the launcher's variable {name} is missing; start the script with horovodrun, mpirun "
            "or srun, or alone without their variables."
        )
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text} is not a whole number; correct or unset it.") from None
