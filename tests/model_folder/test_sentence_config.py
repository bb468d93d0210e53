"""sentence-transformers' configuration files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opencse.errors import UserError
from opencse.model_folder.layout import SENTENCE_CONFIG
from opencse.model_folder.sentence_config import (
    SentenceConfig,
    read_prompts,
    read_sentence_config,
    read_similarity,
    require_all_dimensions,
)
from opencse.modules.prompts import Role
from opencse.modules.similarity import Similarity


def test_a_folder_without_files_has_the_defaults(tmp_path: Path) -> None:
    assert read_sentence_config(tmp_path) == SentenceConfig()
    assert read_similarity(tmp_path) is Similarity.COSINE
    assert not read_prompts(tmp_path)
    require_all_dimensions(tmp_path)


def test_length_and_lower_casing_also_of_old_releases(tmp_path: Path) -> None:
    (tmp_path / "sentence_roberta_config.json").write_text('{"max_seq_length": 75, "do_lower_case": true}')
    assert read_sentence_config(tmp_path) == SentenceConfig(75, lower_case=True)
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 0}')
    with pytest.raises(UserError, match="max_seq_length is 0"):
        read_sentence_config(tmp_path)


def write(folder: Path, **entries: Any) -> None:
    (folder / SENTENCE_CONFIG).write_text(json.dumps(entries))


def test_prompts_and_similarity(tmp_path: Path) -> None:
    write(tmp_path, prompts={"query": "q: "}, default_prompt_name="query", similarity_fn_name="dot")
    assert read_prompts(tmp_path).of(Role.PLAIN) == "q: "
    assert read_similarity(tmp_path) is Similarity.DOT


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"similarity_fn_name": "cosin"}, "similarity_fn_name is 'cosin'.*cosine"),
        ({"truncate_dim": 64}, "truncate_dim is not supported here"),
        ({"default_prompt_name": "other"}, "default_prompt_name: "),
        ({"prompts": {"query": 3}}, "query is 3; a string was expected"),
    ],
)
def test_wrong_entries_are_refused(entries: dict[str, Any], message: str, tmp_path: Path) -> None:
    write(tmp_path, **entries)

    def read_all() -> None:
        read_similarity(tmp_path)
        read_prompts(tmp_path)
        require_all_dimensions(tmp_path)

    with pytest.raises(UserError, match=message):
        read_all()
