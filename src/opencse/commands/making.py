"""Makes encoders without training: by counting words, or with a linear map that whitens an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from opencse.commands.declared import Typed, command
from opencse.commands.shared import (
    Columns,
    Device,
    Encoder,
    Fields,
    OutFolder,
    Pooling,
    Reads,
    Reporter,
    SkipLines,
    Split,
    TextToRead,
    TrustRemoteCode,
)
from opencse.errors import UserError
from opencse.numerals import number_of
from opencse.progress import SILENT, Counted

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.evaluation.models.whitening import LinearMap
    from opencse.making.static import Static, StaticSettings
    from opencse.text.tokenizer import Tokenizer


VOCABULARY = 24_576


@command
def static(
    text: TextToRead,
    out: OutFolder,
    *,
    model: Annotated[str | Path | None, Typed(flags=("--model", "-m"))] = None,
    vocabulary: int = VOCABULARY,
    settings: Annotated[StaticSettings | None, Typed(hidden=True)] = None,
    columns: Columns = None,
    fields: Fields = None,
    skip_lines: SkipLines = (),
    split: Split = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
    **how: Unpack[Reads],
) -> Static:
    """Makes a sentence encoder by counting words, in minutes; no training. See `opencse.making.static` for the method.

    It is good by itself, small and fast, and a start for `opencse.train`.

    Example:
        >>> import opencse
        >>> from opencse.making.static import StaticSettings
        >>> names, verbs = ["A cat", "The dog", "My friend", "One bird"], ["sees", "hears", "likes"]
        >>> texts = [f"{name} {verb} {thing}." for name in names for verb in verbs for thing in ("rain", "tea")]
        >>> made = opencse.static(texts, "counted", vocabulary=120, settings=StaticSettings(dimension=8))
        >>> made.encoder.dimension
        8

    Args:
        text: a file, a Hub data set id, a `Source`, or a list of texts; each text of a pair or
            triple is read by itself.
        out: folder for the encoder; a new or empty one.
        model: Model whose tokenizer is used: a folder or Hub id; by default a new one is made from TEXT.
        vocabulary: Size of the new tokenizer's vocabulary, at most.
        settings: sizes and constants.

    Raises:
        UserError: for bad input, settings that contradict each other, or too little text.
    """
    from opencse.environment import require_packages
    from opencse.export.cards import counted_card
    from opencse.making.static import StaticSettings, build, require_fitting
    from opencse.making.vocabulary import train_wordpiece
    from opencse.outputs import paths_of, require_apart, require_empty
    from opencse.text.corpus import tokenise
    from opencse.text.given import open_texts, say_left_out_rows, texts_of
    from opencse.text.tokenizer import Tokenizer

    require_packages("opencse static", "train", "scipy", "sklearn")
    if model is not None and vocabulary != VOCABULARY:
        raise UserError(f"--vocabulary is for a new tokenizer; leave it out with --model {model}")
    folder, settings = Path(out), settings or StaticSettings()
    require_apart(folder, read=paths_of(text), models=paths_of(model))
    require_empty(folder)
    source = open_texts(
        text,
        columns=columns,
        split=split,
        skip_lines=skip_lines,
        fields=fields,
        **how,
        say=progress.say,
    )
    say_left_out_rows(source, progress.say)
    if model is None:
        progress.say(f"vocabulary learning at most {vocabulary:,} pieces from {source.name}")
        pieces = train_wordpiece(texts_of(source), vocabulary, max_length=settings.positions)
        tokenizer, lower_case = Tokenizer(pieces), False
    else:
        tokenizer, lower_case = _tokenizer_of(model, trust_remote_code)
    require_fitting(settings, tokenizer)
    try:
        counted = Counted(progress, "tokenising")
        corpus = tokenise(source, tokenizer, settings.positions, progress=counted, say=progress.say)
        facts = corpus.facts
        progress.say(f"text       {facts.source}: {number_of(facts.rows, 'row')}, {facts.tokens:,} tokens")
        result = build(corpus, tokenizer, settings, progress)
    finally:
        progress.finish()
    learned = f"new WordPiece vocabulary of {tokenizer.vocabulary_size:,}, learned from the text"
    result.encoder.lower_case = lower_case
    origin = learned if model is None else str(model)
    card = counted_card(facts, result, settings, origin, tokenizer.vocabulary_size)
    result.encoder.save(folder, card=card)
    size = sum(p.numel() for p in result.encoder.parameters()) / 1e6
    progress.say(f"encoder    {result.pieces:,} pieces with a vector of {settings.dimension}, {size:.1f}M parameters")
    return result


def _tokenizer_of(model: str | Path, trust_remote_code: bool) -> tuple[Tokenizer, bool]:
    """Opens a model's tokenizer; also returns whether sentence-transformers' configuration makes it lower-case."""
    from opencse.model_folder.description import list_modules, read_sentence_config
    from opencse.model_folder.locate import locate
    from opencse.modules.parts import lower_casing
    from opencse.text.tokenizer import Tokenizer

    folder = Path(model) if Path(model).is_dir() else locate(model, code=trust_remote_code, weights=False)
    folder = list_modules(folder).transformer
    tokenizer = Tokenizer.load(folder, trust_remote_code=trust_remote_code)
    lower = read_sentence_config(folder).lower_case
    return lower_casing(tokenizer) if lower else tokenizer, lower


@dataclass(frozen=True)
class Whitened:
    """An encoder with a whitening, or with the removal of its first components, as its last layer.

    Attributes:
        encoder: the encoder that was written.
        whitening: the linear map; with ``remove`` an `AllButTheTop`.
        texts: number of texts that it was fitted on.
    """

    encoder: SentenceEncoder
    whitening: LinearMap
    texts: int


@command
def whiten(
    model: Encoder,
    text: TextToRead,
    out: OutFolder,
    *,
    dimension: Annotated[int | None, Typed(least=1)] = None,
    remove: Annotated[int | None, Typed(least=0)] = None,
    sentences: Annotated[int, Typed(least=1)] = 50000,
    columns: Columns = None,
    split: Split = None,
    pooling: Pooling = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> Whitened:
    """Whitens an encoder: fits a linear map on the vectors of a text and saves it as the encoder's last layer.

    A baseline that takes minutes (Su et al. 2021, BERT-whitening), and a way to shorter vectors. With ``remove`` the
    map is that of all-but-the-top instead (Mu and Viswanath 2018): without the mean and the first principal components.

    Example:
        >>> import opencse
        >>> texts = ["The kettle boils.", "Snow fell on the hills.", "The train is late.", "A dog barks at night."]
        >>> whitened = opencse.whiten("opencse-mini", texts, "white", dimension=2)
        >>> whitened.encoder.encode(["A cat sleeps."]).shape
        (1, 2)

    Args:
        model: the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`, which stays as it is.
        text: a file, a Hub data set id, a `Source`, or a list of texts.
        out: folder for the whitened encoder; a new or empty one.
        dimension: Keep the first N dimensions; by default all that vary.
        remove: Instead of whitening: remove the mean and the first N principal components (all-but-the-top).
        sentences: Number of different texts of TEXT that it is fitted on, drawn at random.

    Raises:
        UserError: for bad input, a dimension above the encoder's, or too few or too similar texts.
    """
    from opencse.commands.opening import name_of, open_encoder
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.evaluation.models.whitening import STRETCHED, AllButTheTop, Whitening, whitened
    from opencse.evaluation.transforms import sample_texts
    from opencse.export.cards import fitted_text, mapped_card
    from opencse.modules.similarity import require_dimensions
    from opencse.outputs import paths_of, require_apart, require_empty
    from opencse.text.given import open_texts, say_left_out_rows

    folder = Path(out)
    require_apart(folder, read=paths_of(text), models=paths_of(model))
    require_empty(folder)
    source = open_texts(text, columns=columns, split=split)
    say_left_out_rows(source, progress.say)
    loaded = open_encoder(model, progress, pooling, device, trust_remote_code)
    encoder = loaded.twin() if isinstance(model, SentenceEncoder) else loaded
    name = name_of(model)
    require_dimensions(dimension, encoder.dimension, name)
    if remove is not None and dimension is not None:
        raise UserError("--remove keeps all dimensions; leave --dimension out, or whiten without --remove")
    texts = sample_texts(source, sentences)
    # L2 normalisation comes last in a folder, so the map is fitted without it, and it is added again after the map.
    unit, encoder.normalize = encoder.normalize, False
    prompt = encoder.prompts.of(encoder.prompts.single)
    vectors = encoder.encode(texts, prompt=prompt, progress=Counted(progress, "encoding"))
    whitening = Whitening.fit(vectors, dimension) if remove is None else AllButTheTop.fit(vectors, remove)
    result = whitened(encoder, whitening)
    result.normalize = unit
    text_facts = fitted_text(source.name, source.fingerprint(), len(texts))
    card = mapped_card(name, encoder, result, whitening, text_facts)
    result.save(folder, card=card)
    if isinstance(whitening, AllButTheTop):
        removed = number_of(whitening.removed, "component")
        progress.say(f"removed    the mean and {removed}, {number_of(len(texts), 'text')}")
        return Whitened(result, whitening, len(texts))
    dropped = f" ({whitening.dropped} without variance)" if whitening.dropped else ""
    progress.say(
        f"whitening  {encoder.dimension} to {whitening.dimension} dimensions{dropped}, {number_of(len(texts), 'text')}"
    )
    for line in whitening.doubts(len(texts)):
        progress.say(line)
    if whitening.stretch > STRETCHED:
        progress.say(
            f"warning    the last dimension is stretched {whitening.stretch:,.0f} times as much as the first: what "
            "hardly varies in these texts is mostly noise, which dominates in other texts; give more texts, or "
            f"--dimension {whitening.within(STRETCHED)}"
        )
    return Whitened(result, whitening, len(texts))
