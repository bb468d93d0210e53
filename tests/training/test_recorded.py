"""Recorded steps are the plain ones; what cannot be recorded is made plainly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from opencse.progress import Silent
from opencse.recipes.files import recipe_names
from opencse.runs.run import Run
from opencse.text.given import open_texts
from opencse.training.step import RecordedUpdate, Recorder, Update, Updated, why_not_recorded
from opencse.training.trainer import Trainer
from steps import VARIANTS, prepared

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
STEPS = 12
"""Recipes that are among the recorded ones."""


def simcse(model: Path, sentences: list[str], *settings: str) -> Run:
    """SimCSE on a CPU, where lengths are not rounded up, in batches of 6 texts of several lengths."""
    asked = (
        "training.batch_size=6",
        "training.precision=float32",
        "training.log_every=1",
        "training.epochs=4",
        *settings,
    )
    texts = open_texts(sorted(sentences, key=len)[::6][: 6 * STEPS])
    return Run(text=texts, model=str(model), settings=asked, dev=None, device="cpu").open(Silent())


def losses(made: Run, folder: Path, record: Recorder | None, said: list[str] | None = None) -> list[Tensor]:
    """The losses and figures of all steps, and the weights after them; plainly without ``record``."""
    said = [] if said is None else said
    taken = made.trainer(folder, Silent())
    (update,) = taken.updates
    plain = update if isinstance(update, Update) else update.update
    taken.updates = [plain if record is None else RecordedUpdate(plain, said.append, record)]
    torch.manual_seed(1)
    found = []
    for step in range(4 * STEPS):
        outcome = taken._make_step(step)
        found += [one.detach().cpu().clone() for one in (*outcome.losses.values(), *outcome.report.values())]
    return [*found, *(one.detach().cpu().clone() for one in taken.encoder.state_dict().values())]


@pytest.mark.slow
def test_of_each_shape_all_steps_but_the_first_are_replayed(
    tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    recorded: list[object] = []
    replayed: list[object] = []

    def record(step: Callable[[], Updated]) -> Callable[[], Updated]:
        recorded.append(step)

        def again() -> Updated:
            replayed.append(step)
            return step()

        return again

    plain = losses(simcse(tiny_folder, sentences), tmp_path, None)
    again = losses(simcse(tiny_folder, sentences), tmp_path, record)
    assert all(torch.equal(a, b) for a, b in zip(again, plain, strict=True))
    assert 1 < len(recorded) < len(replayed) < 4 * STEPS


@GPU
@pytest.mark.parametrize("name", [*recipe_names(), *VARIANTS])
def test_a_gpu_replays_the_plain_steps_bit_for_bit(
    name: str, tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    runs: list[list[Tensor]] = []
    for graphs in ("false", "true"):
        made = prepared(name, tiny_folder, tmp_path, sentences, f"training.graphs={graphs}", "training.epochs=20")
        made.encoder.float()
        made.objective.float()
        if graphs == "true" and why_not_recorded(made.objective, made.start.recipe.training, made.chunks):
            pytest.skip("not recorded")
        taken: Trainer = made.trainer(tmp_path, Silent())
        torch.manual_seed(1)
        found: list[Tensor] = []
        for step in range(STEPS):
            found += [one.detach().cpu().clone() for one in taken._make_step(step).losses.values()]
        runs.append([*found, *(one.detach().cpu().clone() for one in taken.encoder.state_dict().values())])
        if graphs == "true":
            for update in taken.updates:
                assert isinstance(update, RecordedUpdate)
                assert update.refusal is None
                assert update.recordings
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
