"""What the table ``[encoder]`` accepts."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from opencse.modules.pooling import Pooling
from opencse.recipes.encoder_settings import EncoderSettings


def test_own_is_unset() -> None:
    assert EncoderSettings.model_validate({"pooling": "own", "token_weights": "own"}) == EncoderSettings()
    assert EncoderSettings.model_validate({"pooling": "cls"}).pooling is Pooling.CLS


@pytest.mark.parametrize(
    ("layers", "part"), [(None, ""), (0, "embeddings alone"), (1, "first layer"), (2, "first 2 layers")]
)
def test_the_used_part_in_words(layers: int | None, part: str) -> None:
    assert EncoderSettings(layers=layers).part == part


def test_adapters_need_all_layers() -> None:
    with pytest.raises(ValidationError, match="none of its layers can be left out"):
        EncoderSettings.model_validate({"lora": {}, "layers": 2})
