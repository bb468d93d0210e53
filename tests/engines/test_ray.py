"""Work on a Ray cluster is that of one machine, also where a process is killed."""

from __future__ import annotations

import logging
import operator
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from helpers import Heard, write_lines
from numbered import LINES
from opencse import UserError
from opencse.bulk.encoding_settings import EncodingSettings, Form
from opencse.bulk.folders import encode_folder
from opencse.encoder.encoder import SentenceEncoder
from opencse.studies.running import run_study
from opencse.studies.study import Study, SuiteChoice
from opencse.text.given import open_texts
from opencse.text.readers import Source

if os.environ.get("OPENCSE_TEST_RAY") != "1":
    pytest.skip("a cluster takes minutes to try: make test-ray", allow_module_level=True)
ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """A cluster of two cores on this machine, one for all tests, as `connected` finds it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2] / "src"))
        ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
        yield
        ray.shutdown()
    torch.set_num_threads(before)


def processes_of(name: str) -> list[int]:
    """The processes of this session's cluster that do work of this name."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            told = command.read_bytes()
            if told.startswith(b"ray::") and name.encode() in told and _is_ours(int(command.parent.name)):
                found.append(int(command.parent.name))
        except OSError:
            continue
    return found


def _is_ours(process: int) -> bool:
    """Whether this process started it, if not directly."""
    while process > 1:
        if process == os.getpid():
            return True
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return False


def test_a_folder_made_by_actors_one_of_which_is_killed(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(Path("long.txt"), (f"{line} once more {n}" for n in range(70) for line in LINES))
    source, killed, said = Source("long.txt"), list[int](), list[str]()

    def kill(done: int, rows: int) -> None:
        if not killed and done > rows / 3:
            killed.extend(processes_of("MapWorker"))
            os.kill(killed[0], signal.SIGKILL)

    settings = EncodingSettings(model=tiny_folder, pooling="mean")
    encode_folder(source, "whole", replace(settings, device="cpu"), shard_rows=40)
    made = encode_folder(
        source, "vectors", settings, shard_rows=40, processes=None, engine="ray", progress=kill, say=said.append
    )  # fmt: skip
    assert said == ["up to 2 actors on cpu of a Ray cluster of 2 cores, 0 GPUs"]
    assert 1 <= len(killed) <= 2
    assert (made.rows, made.before, made.files) == (1610, 0, 41)
    whole, vectors = (
        {path.name: path.read_bytes() for path in Path(name).iterdir() if path.name != ".lock"}
        for name in ("whole", "vectors")
    )
    assert len(whole) == 42
    assert vectors == whole
    Path("vectors", "part-00007.npy").unlink()
    made = encode_folder(source, "vectors", settings, shard_rows=40, engine="ray")
    assert made.before == 1570
    assert Path("vectors", "part-00007.npy").read_bytes() == whole["part-00007.npy"]


def test_faults_are_reported_as_without_a_cluster(tmp_path: Path, tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    with torch.no_grad():
        norms = [m for m in encoder.backbone.modules() if isinstance(m, torch.nn.LayerNorm)]
        norms[-1].weight.fill_(1e5)
    encoder.save(tmp_path / "large")
    path = tmp_path / "a.txt"
    path.write_text("\n".join(LINES))
    said = []
    for engine in ("local", "ray"):
        settings = EncodingSettings(model=tmp_path / "large", form=Form("float16"), device="cpu")
        with pytest.raises(UserError) as caught:
            encode_folder(Source(str(path)), tmp_path / engine, settings, shard_rows=30, engine=engine)
        said.append(str(caught.value))
    assert "a.txt, line 1: the vector of 'sentence number 0" in said[0]
    assert said[1] == said[0]
    with pytest.raises(UserError, match="give its folder or name, not an encoder"):
        encode_folder(Source(str(path)), tmp_path / "v", EncodingSettings(model=encoder), engine="ray")


def test_errors_of_the_work_and_of_ray(tmp_path: Path) -> None:
    from opencse.engines.ray import connected

    with connected() as found:
        assert (found.cores, found.gpus) == (2, 0)
        ours = partial(found.shared_out, workers=1, gpu=False, memory=1 << 20)
        assert sorted(ours(partial(range, 5), partial(partial, operator.mul, 2))) == [0, 2, 4, 6, 8]
        with pytest.raises(UserError, match=r"^text: the list is empty; give at least two texts$"):
            list(ours(partial(list, [[]]), partial(partial, open_texts)))
        with pytest.raises(FileNotFoundError) as caught:
            list(ours(partial(list, [str(tmp_path / "none")]), partial(partial, os.stat)))
        assert caught.value.strerror == "No such file or directory"
        assert dict(found.each(abs, [-1, -2], at_a_time=2, cores=1, gpu=False)) == {-1: 1, -2: 2}
        with pytest.raises(UserError, match=r"^the Ray job ended "):
            list(found.each(os._exit, [1], at_a_time=1, cores=1, gpu=False))
    assert ray.is_initialized(), "somebody else's cluster stays"
    assert logging.getLogger("ray.data").handlers


def test_nothing_is_reported_about_a_cluster() -> None:
    from ray._common.usage import usage_lib

    assert not usage_lib.usage_stats_enabled()


def test_the_runs_of_a_study_one_of_which_is_killed(
    small_sts: Path, tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    text = tmp_path / "text.txt"
    write_lines(text, sentences[:40])
    study = Study(
        text=Source(str(text)),
        out=tmp_path / "here",
        recipes=["simcse"],
        starts=[str(tiny_folder)],
        seeds=[1, 2, 3],
        suites=[SuiteChoice("sts", small_sts)],
        settings=("training.max_steps=3", "training.batch_size=8", "encoder.pooling=mean"),
        dev=None,
        device="cpu",
    )  # fmt: skip

    class Killing(Heard):
        killed = 0

        def advance(self, done: int, note: str = "") -> None:
            for process in processes_of("_done_in")[: 1 - self.killed]:
                os.kill(process, signal.SIGKILL)
                self.killed += 1

    heard = Killing()
    there = run_study(replace(study, out=tmp_path / "there"), engine="ray", workers=2, progress=heard)
    assert heard.killed == 1
    assert "3 runs, 2 at a time with 1 core each, on a Ray cluster of 2 cores, 0 GPUs" in heard.said
    here = run_study(study)
    assert len(here) == 4
    unlike = {"created", "train_seconds", "judge_seconds"}
    told = [[one.model_dump(exclude=unlike) for one in records] for records in (here, there)]
    assert told[0] == told[1]
    assert here[1].results != here[2].results
