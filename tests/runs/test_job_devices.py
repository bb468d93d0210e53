"""Where each of several processes computes."""

from __future__ import annotations

import pytest
import torch

from opencse.errors import UserError
from opencse.objective.vectors.generator import random_state, restore, seeded
from opencse.processes import Processes, gpu_of, joined
from opencse.runs.job import device_of_process
from opencse.training.checkpoint import random_states, restore_random_states


def test_several_processes_do_not_share_a_numbered_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_of_process("cuda:1") == "cuda:1", "alone, any is fine"
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "1"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    assert device_of_process("cpu") == "cpu"
    with pytest.raises(UserError, match=r"^--device cuda:0: 2 processes need a GPU each; use --device cuda"):
        device_of_process("cuda:0")


def test_the_generators_of_apples_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout on mps draws from mps's own generator: asked for, put back, seeded and kept in checkpoints."""
    held = torch.Generator().manual_seed(1)
    monkeypatch.setattr(torch.mps, "get_rng_state", held.get_state)
    monkeypatch.setattr(torch.mps, "set_rng_state", held.set_state)
    monkeypatch.setattr(torch.mps, "manual_seed", held.manual_seed)
    device = torch.device("mps")
    before, own = random_state(device), torch.get_rng_state()
    assert torch.equal(before, torch.Generator().manual_seed(1).get_state())
    with seeded(5, device):
        assert torch.equal(held.get_state(), torch.Generator().manual_seed(5).get_state())
    assert torch.equal(held.get_state(), before)
    kept = random_states(device)
    torch.rand(3, generator=held)
    restore_random_states(kept, device)
    assert torch.equal(held.get_state(), before)
    restore(torch.Generator().manual_seed(2).get_state(), device)
    assert not torch.equal(held.get_state(), before)
    assert torch.equal(torch.get_rng_state(), own)
    assert set(random_states(torch.device("cpu"))) == {"cpu"}, "no GPU is looked at"


@pytest.mark.parametrize(("gpus", "expected"), [(4, [0, 1, 2, 3]), (3, [0, 1, 2, 0]), (1, [0, 0, 0, 0])])
def test_processes_share_gpus_where_there_are_fewer(
    gpus: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert [gpu_of(Processes(rank=n, count=4, local=n, on_machine=4)) for n in range(4)] == expected


@pytest.mark.parametrize(("gpus", "backend"), [(2, "nccl"), (1, "gloo")])
def test_processes_that_share_a_gpu_exchange_by_gloo(gpus: int, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "1"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: begun.append(f"GPU {number}"))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda name, timeout: begun.append(name))
    monkeypatch.setattr(torch.distributed, "new_group", lambda backend, timeout: None)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: None)
    with joined("cuda") as world:
        assert world.count == 2
    assert begun == [f"GPU {gpus - 1}", backend]
