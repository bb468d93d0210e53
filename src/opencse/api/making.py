"""Encoders without training: `static` counts words, `whiten` adds a linear map."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from opencse.api.models import Model, name_of, open_encoder
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import require_packages
from opencse.errors import UserError, plain_failures
from opencse.evaluation.models.whitening import STRETCHED, Whitening, whitened
from opencse.evaluation.transforms import sample_texts
from opencse.foreign import checks_trust
from opencse.making.static import Static, StaticSettings, build, check
from opencse.making.vocabulary import train_wordpiece
from opencse.model_folder.locate import locate
from opencse.model_folder.reading import sentence_config, transformer_folder
from opencse.modules.lower_case import lower_casing
from opencse.outputs import made_folder, paths_of, require_apart, require_empty
from opencse.progress import Counted, Progress, Silent
from opencse.runs.card import counted_card, whitened_card
from opencse.text.corpus import tokenise
from opencse.text.given import Text, TextSource, open_texts, texts_of
from opencse.text.tokenizer import Tokenizer

VOCABULARY = 24_576
"""Pieces of a new tokenizer."""


@plain_failures
@checks_trust
def static(
    text: Text,
    out: str | Path,
    *,
    model: str | Path | None = None,
    vocabulary: int = VOCABULARY,
    settings: StaticSettings | None = None,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    skip_lines: Collection[int] = (),
    fields: Sequence[str] | None = None,
    keep_code: bool = False,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Static:
    """Makes a sentence encoder by counting words, in minutes; no training. See `opencse.making.static` for the method.

    It is good by itself, small and fast, and a start for `opencse.train`.

    Args:
        text: a file, a Hub data set id, a `Source`, or a list of texts; of pairs and triples each text is read by
            itself.
        out: folder for the encoder; a new or empty one.
        model: folder or Hub id whose tokenizer is used; by default a new one is made.
        vocabulary: pieces of the new tokenizer.
        settings: sizes and constants.
        columns: of a file; see `opencse.train`.
        split: of a Hub data set.
        skip_lines: of a file; see `opencse.train`.
        fields: of a file's documents; see `opencse.train`.
        keep_code: keep code blocks of HTML and Markdown.
        trust_remote_code: run the Python code that the folder of ``model`` brings; see `SentenceEncoder.load`.
        progress: hears of it.

    Raises:
        UserError: for bad input, settings that do not fit together, or too little text.
    """
    require_packages("opencse static", "train", "scipy", "sklearn")
    if model is not None and vocabulary != VOCABULARY:
        raise UserError(f"vocabulary is of a new tokenizer; leave it out with the model {model}")
    folder, tell, chosen = Path(out), progress or Silent(), settings or StaticSettings()
    require_apart(folder, read=paths_of(text), models=paths_of(model))
    require_empty(folder)
    source = open_texts(
        text, columns=columns, split=split, skip_lines=skip_lines, fields=fields, keep_code=keep_code, say=tell.say
    )
    tokenizer, lower_case = _tokenizer(model, source, vocabulary, chosen.positions, tell, trust_remote_code)
    check(chosen, tokenizer)
    with made_folder(folder):
        try:
            corpus = tokenise(source, tokenizer, chosen.positions, progress=Counted(tell, "tokenising"), say=tell.say)
            facts = corpus.facts
            tell.say(f"text       {facts.source}: {facts.rows:,} rows, {facts.tokens:,} tokens")
            made = build(corpus, tokenizer, chosen, tell)
        finally:
            tell.finish()
        own = f"new WordPiece vocabulary of {tokenizer.vocabulary_size:,}, learned from the text"
        made.encoder.lower_case = lower_case
        card = counted_card(facts, made, chosen, own if model is None else str(model), tokenizer.vocabulary_size)
        made.encoder.save(folder, card=card)
    size = sum(p.numel() for p in made.encoder.parameters()) / 1e6
    tell.say(f"encoder    {made.pieces:,} pieces with a vector of {chosen.dimension}, {size:.1f}M parameters")
    return made


def _tokenizer(
    model: str | Path | None,
    source: TextSource,
    vocabulary: int,
    positions: int,
    progress: Progress,
    trust_remote_code: bool,
) -> tuple[Tokenizer, bool]:
    """The tokenizer, and whether sentence-transformers' configuration is what makes it lower-case."""
    if model is None:
        progress.say(f"vocabulary learning at most {vocabulary:,} pieces from {source.name}")
        return Tokenizer(train_wordpiece(texts_of(source), vocabulary, max_length=positions)), False
    folder = Path(model) if Path(model).is_dir() else locate(model, code=trust_remote_code, weights=False)
    folder = transformer_folder(folder)
    tokenizer = Tokenizer.load(folder, trust_remote_code=trust_remote_code)
    lower = sentence_config(folder).lower_case
    return lower_casing(tokenizer) if lower else tokenizer, lower


@dataclass(frozen=True)
class Whitened:
    """An encoder with a whitening as its last layer.

    Attributes:
        encoder: as it was written.
        whitening: the map, with what it left out.
        texts: how many it was fitted on.
    """

    encoder: SentenceEncoder
    whitening: Whitening
    texts: int


@plain_failures
@checks_trust
def whiten(
    model: Model,
    text: Text,
    out: str | Path,
    *,
    dimension: int | None = None,
    sentences: int = 50_000,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Whitened:
    """Whitens an encoder: fits a linear map on the vectors of a text and saves it as the encoder's last layer.

    A baseline that takes minutes (Su et al. 2021, BERT-whitening), and a way to shorter vectors.

    Args:
        model: the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`, which stays as it is.
        text: a file, a Hub data set id, a `Source`, or a list of texts.
        out: folder for the whitened encoder; a new or empty one.
        dimension: first dimensions that are kept; by default all that vary.
        sentences: different texts to fit on, drawn at random; all if there are fewer.
        columns: of a file; see `opencse.train`.
        split: of a Hub data set.
        pooling: replaces the model's own.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        progress: hears of it.

    Raises:
        UserError: for bad input, a dimension above the encoder's, or too few or too similar texts.
    """
    folder, tell = Path(out), progress or Silent()
    require_apart(folder, read=paths_of(text), models=paths_of(model))
    require_empty(folder)
    source = open_texts(text, columns=columns, split=split)
    loaded = open_encoder(model, tell, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    encoder = loaded.twin() if isinstance(model, SentenceEncoder) else loaded
    name = name_of(model)
    if dimension is not None and dimension > encoder.dimension:
        raise UserError(f"--dimension {dimension} is above the {encoder.dimension} of {name}; give a smaller one")
    texts = sample_texts(source, sentences)
    with made_folder(folder):
        # L2 normalisation comes last in a folder, so the map is fitted without it, which is then put back behind it.
        unit, encoder.normalize = encoder.normalize, False
        tell.start("encoding", len(texts))
        try:
            prompt = encoder.prompts.of(encoder.prompts.single)
            vectors = encoder.encode(texts, prompt=prompt, progress=lambda done, _: tell.advance(done))
        finally:
            tell.finish()
        whitening = Whitening.fit(vectors, dimension)
        made = whitened(encoder, whitening)
        made.normalize = unit
        card = whitened_card(name, encoder, made, whitening, source.name, source.fingerprint(), len(texts))
        made.save(folder, card=card)
    dropped = f" ({whitening.dropped} without variance)" if whitening.dropped else ""
    tell.say(f"whitening  {encoder.dimension} to {whitening.dimension} dimensions{dropped}, {len(texts):,} texts")
    if whitening.stretch > STRETCHED:
        tell.say(
            f"warning    the last dimension is stretched {whitening.stretch:,.0f} times as much as the first: what "
            "hardly varies in these texts is mostly noise, which drowns the rest in other texts; give more texts, or "
            f"--dimension {whitening.within(STRETCHED)}"
        )
    return Whitened(made, whitening, len(texts))
