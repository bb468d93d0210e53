"""sentence-transformers' configuration files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers import json_in
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.description import (
    SentenceConfig,
    Stated,
    list_modules,
    read_sentence_config,
    write_hybrid_weight,
)
from opencse.model_folder.layout import SENTENCE_CONFIG
from opencse.modules.similarity import HybridWeight


def test_length_and_lower_casing_also_of_old_releases(tmp_path: Path) -> None:
    (tmp_path / "sentence_roberta_config.json").write_text('{"max_seq_length": 75, "do_lower_case": true}')
    assert read_sentence_config(tmp_path) == SentenceConfig(75, lower_case=True)
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 0}')
    with pytest.raises(UserError, match="max_seq_length is 0"):
        read_sentence_config(tmp_path)


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ({"processor_kwargs": {"model_max_length": 8}}, "processor_kwargs: model_max_length = 8"),
        ({"config_kwargs": {"num_hidden_layers": 1}}, "config_kwargs: num_hidden_layers = 1"),
        ({"query_expansion": {"strategy": "fixed", "length": 16}}, "query_expansion = "),
        ({"tokenizer_name_or_path": "another"}, "tokenizer_name_or_path = 'another'"),
    ],
)
def test_settings_that_change_vectors_are_read_or_refused(entries: dict[str, Any], named: str, tmp_path: Path) -> None:
    path = tmp_path / "sentence_xlnet_config.json"
    path.write_text(json.dumps({"max_seq_length": 9, **entries}))
    with pytest.raises(UserError, match=f"sentence_xlnet_config.json: {named}.*is not supported here"):
        read_sentence_config(tmp_path)


def write(folder: Path, **entries: Any) -> None:
    (folder / SENTENCE_CONFIG).write_text(json.dumps(entries))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"similarity_fn_name": "cosin"}, "similarity_fn_name is 'cosin'.*cosine"),
        ({"truncate_dim": 64}, "truncate_dim = 64 is not supported here"),
        ({"model_type": "SparseEncoder"}, "model_type = 'SparseEncoder' is not supported here"),
        ({"prompts": {"query": 3}}, "query is 3; a string was expected"),
    ],
)
def test_wrong_entries_are_refused(entries: dict[str, Any], message: str, tmp_path: Path) -> None:
    write(tmp_path, **entries)
    with pytest.raises(UserError, match=message):
        assert list_modules(tmp_path).common


WEIGHT = HybridWeight(0.4, "300 questions about kettles")


def test_it_is_saved_loaded_and_saved_again_with_the_encoder(tmp_path: Path, encoder: SentenceEncoder) -> None:
    encoder.save(tmp_path / "first")
    before = json_in(tmp_path / "first" / SENTENCE_CONFIG)
    assert Stated(tmp_path / "first").hybrid_weight is None
    write_hybrid_weight(tmp_path / "first", WEIGHT)
    after = json_in(tmp_path / "first" / SENTENCE_CONFIG)
    assert after == {**before, "hybrid_search": {"weight": 0.4, "source": "300 questions about kettles"}}
    loaded = SentenceEncoder.load(tmp_path / "first", device="cpu")
    assert loaded.hybrid_weight == WEIGHT
    loaded.save(tmp_path / "second")
    assert Stated(tmp_path / "second").hybrid_weight == WEIGHT


def test_a_weight_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    for weight in (1.5, "much", True):
        (tmp_path / SENTENCE_CONFIG).write_text(json.dumps({"hybrid_search": {"weight": weight}}))
        with pytest.raises(UserError, match=r"hybrid_search: the weight of the vectors is a number from 0 to 1"):
            assert Stated(tmp_path).hybrid_weight
