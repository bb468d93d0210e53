"""How texts are encoded in bulk: the model that is opened, its prompt, and what the vectors depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opencse import SentenceEncoder, UserError
from opencse.bulk.encoding_settings import EncodingSettings
from opencse.bulk.forms import Form


def test_an_encoder_is_used_as_it_is_and_a_name_is_loaded(encoder: SentenceEncoder, tiny_folder: Path) -> None:
    assert EncodingSettings(model=encoder).open(print) is encoder
    by_name = EncodingSettings(model=tiny_folder, pooling="mean", device="cpu").open(print)
    assert isinstance(by_name, SentenceEncoder)
    assert str(by_name.pooling) == "mean"
    with pytest.raises(RuntimeError, match="not sent to another process"):
        EncodingSettings(model=encoder).load()


def test_forms_and_precisions_that_do_not_exist_are_refused(encoder: SentenceEncoder) -> None:
    with pytest.raises(UserError, match="dimensions is from 1 to the 32 of this model, not 33"):
        EncodingSettings(model=encoder, form=Form(dimensions=33)).open(print)
    with pytest.raises(UserError, match="unknown precision 'bf61'"):
        EncodingSettings(model=encoder, precision="bf61").require_options()  # type: ignore[arg-type]


def test_vectors_have_the_prompt_and_the_form(encoder: SentenceEncoder) -> None:
    settings = EncodingSettings(model=encoder, prompt="query: ", form=Form(dimensions=4, normalize=True))
    vectors = settings.vectors(encoder, ["a", "b"], settings.prompt_of(encoder))
    expected = encoder.encode(["query: a", "query: b"])[:, :4]
    assert np.allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)


def test_the_identity_is_all_that_vectors_depend_on(encoder: SentenceEncoder) -> None:
    settings = EncodingSettings(model=encoder)
    plain = settings.identity("text", 2, encoder)
    for other in (
        replace(settings, form=Form("float16")),
        replace(settings, form=Form(dimensions=4)),
        replace(settings, form=Form(normalize=True)),
        replace(settings, prompt="query: "),
        replace(settings, precision="bf16"),
    ):
        assert len(other.identity("text", 2, encoder).items() ^ plain.items()) == 2
    assert replace(settings, trust_remote_code=True).identity("text", 2, encoder) == plain
