import copy
import io
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import nn

from helpers import record_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation.classifiers.settings import MODES, ClassifierSettings, Mode
from opencse.evaluation.embedding import distinct, embed
from opencse.evaluation.probing.data import ProbingData, ProbingExamples, load_probing
from opencse.evaluation.probing.score import Probing, ProbingResult
from vectors_of_texts import HashedWords

pytestmark = pytest.mark.slow

WIDTH = 12
bag_of_words = HashedWords(WIDTH)
WORDS = ["sing", "sang", "sung", "a", "the", "so", "it", "in", "old", "new", "cat", "dog", "sun", "sea"]
L2 = (1e-5, 1e-4, 1e-3, 1e-2)


evaluate_probing = partial(record_of, Probing)
"""The record of a plain function of texts."""


def lines(n: int, seed: int, classes: int) -> list[tuple[str, str]]:
    """Sentences whose first word tells the class, most of the time."""
    numbers = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        label = int(numbers.integers(classes))
        told = label if numbers.random() < 0.7 else int(numbers.integers(classes))
        sentence = " ".join([WORDS[told], *numbers.choice(WORDS, size=int(numbers.integers(2, 7)))])
        made.append((sentence, "BAC"[label]))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task in SentEval's form, one in two files, one in two files that are one, and the linear one."""

    def given(key: str, seed: int) -> None:
        text = [
            f"{part}\t{label}\t{sentence}"
            for step, (part, n) in enumerate((("tr", 70), ("va", 40), ("te", 60)))
            for sentence, label in lines(n, seed + step, 3)
        ]
        (tmp_path / f"{key}.txt").write_text("\n".join(text), encoding="utf-8")

    def two(key: str, first: list[tuple[str, str]], second: list[tuple[str, str]]) -> None:
        (tmp_path / key).mkdir()
        for name, part in (("va", first), ("te", second)):
            text = "\n".join(f"{sentence}\t{label}" for sentence, label in part)
            (tmp_path / key / f"{name}.txt").write_text(text, encoding="utf-8")

    given("top_constituents", 25)
    given("word_content", 4)
    two("past_present", lines(90, 7, 2), lines(50, 8, 2))
    two("tree_depth", lines(160, 9, 2), lines(160, 9, 2))
    return tmp_path


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits of a few passes, to be quick."""
    monkeypatch.setitem(MODES, "test", replace(MODES["test"], max_epoch=12, tenacity=1, batch_size=16))
    monkeypatch.setitem(MODES, "fast", replace(MODES["fast"], max_epoch=6, tenacity=1, batch_size=25))


def share(model: nn.Module, x: torch.Tensor, y: list[int]) -> float:
    right = 0
    for row, label in zip(x, y, strict=True):
        right += int(int(model(row[None]).argmax()) == label)
    return right / len(y)


def one_fit(
    x: dict[str, torch.Tensor], y: dict[str, list[int]], hidden: int, dropout: float, l2: float, s: ClassifierSettings
) -> tuple[float, float]:
    """Dev and test accuracy of one fit, in float64."""
    torch.manual_seed(s.seed)
    numbers = np.random.RandomState(s.seed)
    classes, d = len(set(y["train"])), x["train"].shape[1]
    if hidden:
        model = nn.Sequential(nn.Linear(d, hidden), nn.Dropout(dropout), nn.Sigmoid(), nn.Linear(hidden, classes))
    else:
        model = nn.Sequential(nn.Linear(d, classes))
    model = model.double()
    parameters = model.parameters()
    optimizer: torch.optim.Optimizer = (
        torch.optim.Adam(parameters, weight_decay=l2)
        if s.optimizer == "adam"
        else torch.optim.RMSprop(parameters, weight_decay=l2)
    )
    best, kept, misses, passes = -1.0, model, 0, 0
    targets = torch.tensor(y["train"])
    while passes <= s.max_epoch:
        model.train()
        for _ in range(s.epoch_size):
            order = numbers.permutation(len(targets))
            for start in range(0, len(targets), s.batch_size):
                rows = torch.from_numpy(order[start : start + s.batch_size])
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x["train"][rows]), targets[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        passes += s.epoch_size
        model.eval()
        found = share(model, x["dev"], y["dev"])
        if found > best:
            best, kept = found, copy.deepcopy(model)
        else:
            if misses >= s.tenacity:
                break
            misses += 1
    return best, share(kept, x["test"], y["test"])


def by_loops(task: ProbingExamples, mode: Mode, *, linear: bool) -> tuple[float, float, int, float, float]:
    x = {name: torch.from_numpy(bag_of_words(part.first)).double() for name, part in task.parts.items()}
    y = {name: part.labels.tolist() for name, part in task.parts.items()}
    best = (0.0, -1.0, 0, 0.0, 0.0)
    with torch.random.fork_rng():
        for hidden, dropout in [(0, 0.0)] if linear else product((50, 100, 200), (0.0, 0.1, 0.2)):
            for l2 in L2:
                dev, test = one_fit(x, y, hidden, dropout, l2, MODES[mode])
                if round(100 * dev, 2) > best[1]:
                    best = (100 * test, round(100 * dev, 2), hidden, dropout, l2)
    return best


@pytest.mark.parametrize(
    ("key", "mode", "classifier"),
    [
        ("top_constituents", "test", "softmax"),
        ("past_present", "fast", "softmax"),
        ("top_constituents", "fast", "mlp"),
        ("tree_depth", "test", "mlp"),
        ("word_content", "fast", "mlp"),
    ],
)
def test_the_choice_and_the_accuracy_by_loops(folder: Path, key: str, mode: Mode, classifier: str) -> None:
    linear = classifier == "softmax" or key == "word_content"
    data = load_probing(folder, [key])
    result = evaluate_probing(bag_of_words, data, mode=mode, classifier="softmax" if classifier == "softmax" else "mlp")
    score = result.probing.tasks[key]
    found = (score.accuracy, score.dev_accuracy, score.hidden, score.dropout, score.l2)
    assert found == by_loops(data.tasks[key], mode, linear=linear)
    assert (score.hidden == 0) == linear
    assert 34 < score.accuracy < 100


def test_the_choice_above_is_none_of_the_grid_s_first(folder: Path) -> None:
    """So that a choice that never moves would be seen there."""
    score = evaluate_probing(bag_of_words, load_probing(folder, ["top_constituents"]), mode="fast").probing
    chosen = score.tasks["top_constituents"]
    assert chosen.dropout > 0
    assert chosen.l2 > 1e-5
    test = evaluate_probing(bag_of_words, load_probing(folder, ["top_constituents"])).probing
    assert {chosen.hidden, test.tasks["top_constituents"].hidden} != {50}


def test_majority_and_counts(folder: Path) -> None:
    data = load_probing(folder)
    result = evaluate_probing(bag_of_words, data, mode="fast", classifier="softmax")
    for key, task in data.tasks.items():
        score = result.probing.tasks[key]
        labels = task.parts["test"].labels.tolist()
        assert score.majority == 100 * max(labels.count(label) for label in set(labels)) / len(labels)
        assert score.examples == {name: len(part.first) for name, part in task.parts.items()}
        assert (score.classes, score.files) == (len(task.classes), list(task.files))
        assert (score.split, score.dropped, score.complete) == (task.split, task.dropped, False)
    assert {score.split for score in result.probing.tasks.values()} == {"given", "two_files", "one_file"}


def accuracies(result: ProbingResult) -> dict[str, float]:
    return {key: score.accuracy for key, score in result.probing.tasks.items()}


def test_a_task_s_score_depends_on_no_other_task_nor_on_the_global_generators(folder: Path) -> None:
    data = load_probing(folder)
    wanted = accuracies(evaluate_probing(bag_of_words, data, mode="fast"))
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = torch.get_rng_state().clone(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    turned = ProbingData(data.source, data.text, dict(reversed(data.tasks.items())))
    assert accuracies(evaluate_probing(bag_of_words, turned, mode="fast")) == wanted
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # type: ignore[index]  # noqa: NPY002
    alone = load_probing(folder, ["tree_depth"]).tasks["tree_depth"]
    embedded = embed(bag_of_words, distinct(part.first for part in alone.parts.values()))
    assert Probing(mode="fast").score(alone, embedded).accuracy == wanted["tree_depth"]
    assert len(set(wanted.values())) > 2


def test_encode_is_called_once_a_task_on_its_distinct_sentences(folder: Path) -> None:
    encode = HashedWords(WIDTH)
    data = load_probing(folder)
    evaluate_probing(encode, data, mode="fast", classifier="softmax")
    assert len(encode.calls) == 4
    for call, task in zip(encode.calls, data.tasks.values(), strict=True):
        texts = [text for part in task.parts.values() for text in part.first]
        assert len(call) == len(set(call)) <= len(texts)
        assert set(call) == set(texts)
    assert sum(map(len, encode.calls)) < sum(len(part) for task in data.tasks.values() for part in task.parts.values())


def test_what_was_done_is_recorded_and_read_again(folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    data = load_probing(folder)
    result = evaluate_probing(
        bag_of_words, data, mode="fast", model="bow", pooling="sum", device="cpu", progress=said.append
    )
    assert (result.model, result.pooling, result.environment.device) == ("bow", "sum", "cpu")
    assert (result.mode, result.classifier) == ("fast", "mlp")
    assert result.data.source == str(folder)
    assert result.data.sha256 == {key: task.sha256() for key, task in data.tasks.items()}
    assert len(said) == 2 + 2 * 4
    assert "not in " in said[1]
    assert said[3].startswith("WC: accuracy ")
    assert "(softmax, l2 " in said[3]
    assert "not the published parts, so this does not compare with published values" in said[3]
    values = result.values()
    assert values.pop("probing.average") == pytest.approx(np.mean(list(values.values())))
    assert list(values) == [
        "probing.word_content",
        "probing.tree_depth",
        "probing.top_constituents",
        "probing.past_present",
    ]
    result.write_json(tmp_path / "result.json")
    assert ProbingResult.read_json(tmp_path / "result.json") == result


def test_table(folder: Path) -> None:
    first = evaluate_probing(bag_of_words, load_probing(folder), mode="fast")
    one = evaluate_probing(bag_of_words, load_probing(folder, ["past_present"]), classifier="softmax")
    console = Console(width=180, record=True, file=io.StringIO())
    console.print(Probing.table({"[first]": first, "one": one}))
    text = console.export_text()
    upper, lower = (line for line in text.splitlines() if "[first]" in line or "one " in line)
    assert [f"{score.accuracy:.2f}*" in upper for score in first.probing.tasks.values()] == [True] * 4
    assert f"{first.probing.average:.2f} (4)" in upper
    assert upper.count(" - ") == 6
    assert "test, softmax" in lower
    assert f"{one.probing.average:.2f} (1)" in lower
    for note in ("* not the published parts", "(k) the mean of only k of the ten", "fast: larger batches"):
        assert note in " ".join(text.split())
    whole = {key: one.probing.tasks["past_present"].model_copy(update={"complete": True}) for key in ("past_present",)}
    marked = one.model_copy(update={"probing": one.probing.model_copy(update={"tasks": whole})})
    console.print(Probing.table({"marked": marked}))
    assert f"{one.probing.average:.2f} " in console.export_text()
    assert "published" not in " ".join(str(Probing.table({"marked": marked}).caption).split())


def test_faults_are_told_before_anything_is_encoded(folder: Path) -> None:
    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        raise AssertionError("nothing is to be encoded")

    data = load_probing(folder)
    with pytest.raises(UserError, match=r"unknown mode 'fats' \(did you mean 'fast'\?\)"):
        evaluate_probing(encode, data, mode="fats")
    with pytest.raises(UserError, match=r"unknown classifier 'logistic'; known: mlp, softmax"):
        evaluate_probing(encode, data, classifier="logistic")
    with pytest.raises(UserError, match="the model gave NaN or infinite values"):
        evaluate_probing(lambda texts: np.full((len(texts), 2), np.nan), data)


def test_a_layer_alone_can_be_judged(tiny_folder: Path, folder: Path) -> None:
    """Each as a function of texts."""
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")

    def of_layer(layer: int) -> dict[str, float]:
        def encode(texts: Sequence[str]) -> NDArray[np.float32]:
            tokens = encoder.tokenizer.pad(encoder.tokenize(texts))
            with torch.no_grad():
                vectors: NDArray[np.float32] = encoder(tokens, layers=[layer]).layers[layer].numpy()
            return vectors

        data = load_probing(folder, ["past_present", "tree_depth"])
        return accuracies(evaluate_probing(encode, data, mode="fast", classifier="softmax"))

    last = evaluate_probing(
        encoder.encode, load_probing(folder, ["past_present", "tree_depth"]), mode="fast", classifier="softmax"
    )
    assert of_layer(3) == accuracies(last)
    assert of_layer(0) != accuracies(last)


def test_real_data_in_fast_mode_with_the_built_in_encoder(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    encoder = SentenceEncoder.load("opencse-mini", device="cpu")
    data = load_probing(shared_data / "probing", ["tree_depth"])
    score = evaluate_probing(encoder.encode, data, mode="fast", classifier="softmax").probing.tasks["tree_depth"]
    assert 20 < score.majority < 23
    assert score.majority + 4 < score.accuracy < 60
    assert abs(score.accuracy - score.dev_accuracy) < 8
