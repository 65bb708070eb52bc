from __future__ import annotations

import pytest

from tf_fasthvd import _topology


def test_no_launcher_is_a_single_process():
    place = _topology.detect({}).placed(["here"])
    assert (place.rank, place.size, place.local_rank, place.local_size) == (0, 1, 0, 1)
    assert (place.cross_rank, place.cross_size, place.homogeneous) == (0, 1, True)


def test_horovodrun_tells_everything():
    place = _topology.detect(
        {
            "HOROVOD_RANK": "3",
            "HOROVOD_SIZE": "4",
            "HOROVOD_LOCAL_RANK": "1",
            "HOROVOD_LOCAL_SIZE": "2",
            "HOROVOD_CROSS_RANK": "1",
            "HOROVOD_CROSS_SIZE": "2",
        }
    )
    assert place == place.placed(["a", "a", "b", "b"])
    assert (place.launcher, place.local_rank, place.cross_rank) == ("horovodrun", 1, 1)


@pytest.mark.parametrize(
    "environment",
    [
        {
            "OMPI_COMM_WORLD_RANK": "2",
            "OMPI_COMM_WORLD_SIZE": "3",
            "OMPI_COMM_WORLD_LOCAL_RANK": "0",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
        },
        {"PMI_RANK": "2", "PMI_SIZE": "3"},
        {
            "SLURM_PROCID": "2",
            "SLURM_STEP_NUM_TASKS": "3",
            "SLURM_STEP_ID": "0",
            "SLURM_LOCALID": "0",
        },
    ],
)
def test_cross_rank_comes_from_the_hosts(environment):
    place = _topology.detect(environment).placed(["a", "a", "b"])
    assert (place.rank, place.size) == (2, 3)
    assert (place.local_rank, place.local_size) == (0, 1)
    assert (place.cross_rank, place.cross_size) == (1, 2)
    assert not place.homogeneous


def test_second_rank_of_a_larger_host_has_no_peers():
    place = _topology.detect({"PMI_RANK": "1", "PMI_SIZE": "3"}).placed(["a", "a", "b"])
    assert (place.local_rank, place.cross_rank, place.cross_size) == (1, 0, 1)


def test_slurm_step_on_one_host():
    environment = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_ID": "0"}
    assert _topology.detect(environment).local_size is None
    assert _topology.detect({**environment, "SLURM_STEP_NUM_NODES": "1"}).local_size == 2


def test_slurm_batch_script_is_a_single_process():
    environment = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "7"}
    assert _topology.detect(environment).size == 1


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"HOROVOD_RANK": "0"}, "HOROVOD_SIZE"),
        ({"HOROVOD_RANK": "4", "HOROVOD_SIZE": "4"}, "HOROVOD_RANK=4"),
        ({"OMPI_COMM_WORLD_RANK": "x", "OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_RANK=x"),
    ],
)
def test_wrong_variables_are_named(environment, named):
    with pytest.raises(ValueError, match=named):
        _topology.detect(environment)


def test_host_name_is_the_launchers():
    assert _topology.host_name({"HOROVOD_HOSTNAME": "worker-7"}) == "worker-7"
    assert _topology.host_name({}) == _topology.host_name({})


def test_jobs_have_different_ids():
    ids = {
        _topology.job_id(environment)
        for environment in (
            {"PMIX_NAMESPACE": "prterun-1"},
            {"OMPI_MCA_ess_base_jobid": "17"},
            {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0"},
            {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "1"},
            {},
        )
    }
    assert len(ids) == 5
