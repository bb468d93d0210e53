"""The precision of encoding by the processor and by the user's own texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opencse
from helpers import Heard
from opencse.encoder import measured_precision as module
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.measured_precision import measured_precision, sample_of
from opencse.errors import UserError

TEXTS = ["A cat sleeps on the mat.", "Rain falls.", "The kettle boils.", "A dog barks at night."]
FAST = "opencse.kernels.processor.fast_bf16"


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FAST, lambda: (True, "this CPU is fast"))


def test_a_sample_is_drawn_evenly_from_the_first_texts() -> None:
    assert sample_of(TEXTS) == TEXTS
    drawn = sample_of(str(number) for number in range(100_000))
    assert (len(drawn), drawn[0], drawn[1], drawn[-1]) == (64, "0", "32", "2016")
    assert len(sample_of(map(str, range(65)))) == 33
    assert sample_of([]) == []


@pytest.mark.usefixtures("fast")
def test_bf16_is_chosen_where_it_is_fast_and_near(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_COSINE", 0.99)
    chosen = measured_precision("auto", encoder, TEXTS)
    assert chosen.name == "bf16"
    exact, near = encoder.encode(TEXTS), encoder.encode(TEXTS, precision="bf16")
    cosines = (exact * near).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(near, axis=1)
    assert f"the smallest cosine to float32 in 4 of the texts is {cosines.min():.6f}" in chosen.reason
    assert chosen.line.startswith("precision  bf16 (auto: this CPU is fast, and the smallest")
    monkeypatch.setattr(module, "LEAST_COSINE", 0.9999999)
    refused = measured_precision("auto", encoder, TEXTS)
    assert refused.name == "float32"
    assert refused.reason.endswith("not above 0.9999999")
    assert measured_precision("auto", encoder, []).name == "bf16"


def test_a_slow_processor_and_word_vectors_keep_float32(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FAST, lambda: (False, "this CPU has no bf16 unit"))
    assert measured_precision("auto", encoder, TEXTS).line == "precision  float32 (auto: this CPU has no bf16 unit)"
    assert measured_precision("auto", opencse.load(), TEXTS).name == "float32"


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("choice", ["auto", "bf16"])
@pytest.mark.parametrize("opened", ["without torch", "with torch"])
def test_what_computes_in_float32_alone_is_recorded_so(choice: Any, opened: str, tmp_path: Path) -> None:
    model = opencse.load() if opened == "without torch" else SentenceEncoder.load(device="cpu")
    line = measured_precision(choice, model, TEXTS).line
    assert line == f"precision  float32 ({choice}: a model of word vectors computes in float32 alone)"
    assert opencse.build_index(tmp_path / "index", model, TEXTS, precision=choice).info.precision == "float32"


def test_a_request_is_followed_and_a_wrong_one_refused(encoder: SentenceEncoder) -> None:
    assert measured_precision("bf16", encoder, TEXTS).name == "bf16"
    assert measured_precision("float32", encoder, TEXTS).reason == "requested"
    with pytest.raises(UserError, match="unknown precision 'bf61'"):
        measured_precision("bf61", encoder, TEXTS)  # type: ignore[arg-type]


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("form", ["memory", "file", "folder"])
def test_encode_says_what_it_chose(
    form: str, encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_COSINE", 0.99)
    heard, file = Heard(), tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    options: dict[str, Any] = {"precision": "auto", "progress": heard}
    if form == "memory":
        vectors = opencse.encode(encoder, TEXTS, **options)
    else:
        out = tmp_path / ("vectors.npy" if form == "file" else "vectors")
        opencse.encode(encoder, file, out, **options)
        vectors = np.load(out if form == "file" else next(out.glob("*.npy")))
    assert sum(line.startswith("precision  bf16 (auto: this CPU is fast") for line in heard.said) == 1
    np.testing.assert_array_equal(vectors, encoder.encode(TEXTS, precision="bf16"))


@pytest.mark.usefixtures("fast")
def test_an_index_records_it_and_adds_in_it(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_COSINE", 0.99)
    heard = Heard()
    built = opencse.build_index(tmp_path / "index", encoder, TEXTS[:2], precision="auto", progress=heard)
    assert built.info.precision == opencse.index_info(tmp_path / "index").precision == "bf16"
    assert any(line.startswith("precision  bf16 (auto") for line in heard.said)
    opencse.add_to_index(tmp_path / "index", TEXTS[2:], model=encoder)
    with opencse.Index.open(tmp_path / "index", encoder=encoder) as index:
        stored = index.vectors(["0", "1", "2", "3"])
    near = encoder.encode(TEXTS, precision="bf16", normalize_embeddings=True)
    np.testing.assert_allclose(stored, near, rtol=0, atol=2e-3)
    assert np.abs(stored - encoder.encode(TEXTS, normalize_embeddings=True)).max() > 1e-5
    assert opencse.build_index(tmp_path / "plain", encoder, TEXTS).info.precision == "float32"
