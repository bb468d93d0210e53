"""Checks a text before training on it."""

from __future__ import annotations

from typing import Unpack

from opencse.adapting.preset_names import LOOSE, RECIPE
from opencse.adapting.start_advice import advice_for_language, language_of_rows
from opencse.api.declaring import public
from opencse.api.models import name_of, open_for_vectors
from opencse.api.options.checking import CheckOptions
from opencse.encoder.text_encoder import TextEncoder
from opencse.encoder.unknown_tokens import UNKNOWN_LIMIT
from opencse.errors import UserError
from opencse.progress import Silent
from opencse.recipes.data_settings import data_settings
from opencse.text.check import CorpusCheck, check_corpus
from opencse.text.files.kinds import how_read
from opencse.text.given import Text
from opencse.text.readers import Texts
from opencse.text.text_to_check import PAIRS_RECIPE, read_to_check


@public
def check(text: Text, **options: Unpack[CheckOptions]) -> CorpusCheck:
    """Checks a text before training on it: kind, duplicates, lengths, unknown tokens, scripts, with advice.

    Example:
        >>> import opencse
        >>> result = opencse.check(["The kettle boils.", "Snow fell.", "The kettle boils."])
        >>> result.rows, round(result.duplicates, 2)
        (3, 0.33)

    Args:
        text: a file, a folder, a Hub data set id, a `Source`, or a list of texts, pairs or triples. Documents are read
            as `opencse.adapt` reads them, rows of pairs and triples as `opencse.train` does.
        **options: see `CheckOptions`.

    Raises:
        UserError: for bad input, in one line.
    """
    near_duplicates, max_length = options["near_duplicates"], options["max_length"]
    if near_duplicates is not None and not 0 < near_duplicates <= 1:
        raise UserError(f"near_duplicates is above 0 and at most 1, not {near_duplicates}")
    sample_of_text = read_to_check(
        text,
        columns=options["columns"],
        split=options["split"],
        fields=options["fields"],
        **how_read(options),
    )
    texts, model = sample_of_text.texts, options["model"]
    encoder = open_for_vectors(
        model,
        options["progress"] or Silent(),
        device=None if isinstance(model, TextEncoder) else "cpu",
        trust_remote_code=options["trust_remote_code"],
        texts=0,
    )
    checked = check_corpus(
        texts,
        encoder.tokenizer,
        max_length=max_length or _longest_read(texts, name_of(model), encoder, sample_of_text.recipe),
        near_duplicates=near_duplicates,
        command=sample_of_text.command,
        read_as=sample_of_text.read_as,
        refused_unknown=UNKNOWN_LIMIT,
    )
    better = advice_for_language(name_of(model), language_of_rows(texts.rows))
    language = [] if better is None else [better]
    return checked.model_copy(update={"advice": [*sample_of_text.advice, *language, *checked.advice]})


def _longest_read(texts: Texts, model: str, encoder: TextEncoder, recipe: str | None) -> int:
    """How many ids of a text the suggested command reads."""
    adapting = RECIPE if texts.documents is not None else f"{RECIPE}:{LOOSE}"
    suited = PAIRS_RECIPE if texts.width > 1 else adapting
    longest = data_settings(recipe or suited, model=model).max_length
    return encoder.max_length if longest == "auto" else longest
