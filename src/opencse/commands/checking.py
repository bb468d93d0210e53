"""Checks a text before training on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from opencse.commands.declared import Typed, command
from opencse.commands.shared import (
    Fields,
    Reads,
    Reporter,
    RowColumns,
    Split,
    TextToRead,
    TrustRemoteCode,
)
from opencse.errors import UserError
from opencse.progress import SILENT

if TYPE_CHECKING:
    from opencse.encoder.text_encoder import TextEncoder
    from opencse.text.check import CorpusCheck
    from opencse.text.readers import Texts


@command
def check(
    text: TextToRead,
    *,
    model: Annotated[
        str | Path | TextEncoder,
        Typed("Model whose tokenizer reads the text: a folder or a Hub id.", ("--model", "-m")),
    ] = "opencse-small",
    max_length: Annotated[int | None, Typed(least=3, most=1000000)] = None,
    near_duplicates: float | None = None,
    columns: RowColumns = None,
    fields: Fields = None,
    split: Split = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
    **how: Unpack[Reads],
) -> CorpusCheck:
    """Checks a text before training on it: kind, duplicates, lengths, unknown tokens, scripts, with advice.

    Example:
        >>> import opencse
        >>> result = opencse.check(["The kettle boils.", "Snow fell.", "The kettle boils."])
        >>> result.rows, round(result.duplicates, 2)
        (3, 0.33)

    Args:
        text: a file, a folder, a Hub data set id, a `Source`, or a list of texts, pairs or triples. Documents are read
            as `opencse.adapt` reads them, rows of pairs and triples as `opencse.train` does.
        model: model whose tokenizer reads the text: the built-in encoder, a folder, a Hub id, or an encoder.
        max_length: Tokens of each text that training would read; by default as many as the suggested command reads.
        near_duplicates: Count rows that overlap with an earlier row by at least this share (0 to 1), for instance 0.8;
            needs opencse[dedup].

    Raises:
        UserError: for bad input, in one line.
    """
    from opencse.commands.opening import name_of, open_for_vectors
    from opencse.documents.advice import advice_for_language, language_of_rows
    from opencse.encoder.first_look import UNKNOWN_LIMIT
    from opencse.encoder.text_encoder import TextEncoder
    from opencse.model_folder.locate import BUILTINS
    from opencse.text.check import check_corpus, read_to_check

    if near_duplicates is not None and not 0 < near_duplicates <= 1:
        raise UserError(f"near_duplicates is above 0 and at most 1, not {near_duplicates}")
    sample_of_text = read_to_check(
        text,
        columns=columns,
        split=split,
        fields=fields,
        **how,
    )
    texts = sample_of_text.texts
    encoder = open_for_vectors(
        model,
        progress,
        device=None if isinstance(model, TextEncoder) else "cpu",
        trust_remote_code=trust_remote_code,
        texts=0,
    )
    name = name_of(model)
    checked = check_corpus(
        texts,
        encoder.tokenizer,
        max_length=max_length or _longest_read(texts, name, encoder, sample_of_text.recipe),
        near_duplicates=near_duplicates,
        command=sample_of_text.command,
        read_as=sample_of_text.read_as,
        refused_unknown=UNKNOWN_LIMIT,
    )
    better = advice_for_language(name, language_of_rows(texts.rows)) if name in BUILTINS else None
    return checked.model_copy(update={"advice": [*sample_of_text.advice, *filter(None, [better]), *checked.advice]})


def _longest_read(texts: Texts, model: str, encoder: TextEncoder, recipe: str | None) -> int:
    """How many ids of a text the suggested command reads."""
    from opencse.documents.advice import LOOSE, RECIPE
    from opencse.recipes.files import data_settings
    from opencse.text.check import PAIRS_RECIPE

    adapting = RECIPE if texts.documents is not None else f"{RECIPE}:{LOOSE}"
    suited = PAIRS_RECIPE if texts.width > 1 else adapting
    longest = data_settings(recipe or suited, model=model).max_length
    return encoder.max_length if longest == "auto" else longest
