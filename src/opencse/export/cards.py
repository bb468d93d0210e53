"""Writes the model cards (README.md) of models that are made without training: counted, mapped, distilled, merged."""

from __future__ import annotations

from opencse.encoder.card import framed
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation.models.whitening import AllButTheTop, LinearMap, Whitening
from opencse.export.distil import Distilled, DistilSettings
from opencse.making.static import Static, StaticSettings
from opencse.markdown import as_text, public_name
from opencse.numerals import number_of
from opencse.text.corpus import CorpusFacts

_COUNTED = """# Sentence encoder made with OpenCSE by counting words

A text's vector is the weighted average of its words' vectors, which come from counts of the words that occur near each
other: positive pointwise mutual information, truncated SVD, SIF weights, whitening. Nothing was trained. The folder
holds {network}.

| | |
|---|---|
| text | {rows}, {tokens:,} tokens; content hash {fingerprint} |
| tokenizer | {tokenizer} |
| counted | {pieces:,} pieces of {vocabulary:,}, {pairs:,} different pairs up to {window} apart |
| dimension, layers | {dimension}, {layers} |
| settings | {settings} |

"""
_MAPPED = """# {title}

{how} Nothing was trained; the map is the last Dense layer.

| | |
|---|---|
| encoder | {model} |
| pooling | {pooling} |
| text | {text} |
| dimension | {before} to {after}{left_out} |

"""
_WHITENED = (
    "Sentence encoder whitened with OpenCSE",
    "The vectors of {model}, put through a linear map after which those of the text below have mean zero and "
    "uncorrelated\ncoordinates of variance one (Su et al. 2021, BERT-whitening).",
)
_WITHOUT_TOP = (
    "Sentence encoder without its dominant components, by OpenCSE",
    "The vectors of {model}, less the mean of those of the text below and their projection on the first principal "
    "components\n(Mu and Viswanath 2018, All-but-the-Top).",
)
_DISTILLED = """# Word vectors distilled with OpenCSE

A table of word vectors made of {model}: every token of its vocabulary through it, principal components, weights by
frequency{fitted}. A text's vector is the mean of its tokens' rows, so word order has no say in it.

| | |
|---|---|
| encoder | {model} |
| rows, dimension | {rows:,}, {dimension} |
| whole words added | {words:,} |
| settings | {settings} |

"""
_MERGED = """# Sentence encoder with merged adapters

The adapters (LoRA) of {adapters}, merged into the weights of {base}.

| | |
|---|---|
| adapters | {adapters} |
| model | {base} |
| pooling, dimensions | {pooling}, {dimension} |

"""


def counted_card(facts: CorpusFacts, static: Static, settings: StaticSettings, tokenizer: str, vocabulary: int) -> str:
    """Returns the card of an encoder made by counting words."""
    listed = settings.model_dump(exclude={"dimension", "layers", "window"}) | {"heads": settings.attention_heads}
    network = "the embeddings of a BERT without layers"
    if settings.layers:
        network = f"a BERT whose {settings.layers} layers do nothing until `opencse train --model` trains them"
    return framed(
        _COUNTED.format(
            network=network,
            rows=number_of(facts.rows, "row"),
            tokens=facts.tokens,
            fingerprint=facts.fingerprint[:16],
            tokenizer=as_text(public_name(tokenizer)),
            pieces=static.pieces,
            vocabulary=vocabulary,
            pairs=static.pairs,
            window=settings.window,
            dimension=settings.dimension,
            layers=settings.layers,
            settings=", ".join(f"{key} {value:g}" for key, value in listed.items()),
        ),
        static.encoder,
    )


def distilled_card(model: str, distilled: Distilled, settings: DistilSettings) -> str:
    """Returns the card of a table of distilled word vectors."""
    fitted = ""
    if distilled.before is not None:
        fitted = (
            f", fitted to the encoder's vectors of {distilled.texts:,} texts (mean cosine {distilled.before:.3f} "
            f"before, {distilled.after:.3f} after)"
        )
    return framed(
        _DISTILLED.format(
            model=as_text(public_name(model)),
            fitted=fitted,
            rows=distilled.rows,
            dimension=distilled.encoder.dimension,
            words=distilled.words,
            settings=", ".join(f"{key} {value}" for key, value in settings.model_dump().items()),
        ),
        distilled.encoder,
        base=model,
    )


def merged_card(adapters: str, base: str, encoder: SentenceEncoder) -> str:
    """Returns the card of a model with merged adapters."""
    adapters, start = as_text(public_name(adapters)), as_text(public_name(base))
    return framed(
        _MERGED.format(
            adapters=adapters,
            base=start,
            pooling=encoder.pooling,
            dimension=encoder.dimension,
        ),
        encoder,
        base=base,
    )


def mapped_card(model: str, encoder: SentenceEncoder, mapped: SentenceEncoder, fitted: LinearMap, text: str) -> str:
    """Returns the card of an encoder with a fitted linear map on top: whitened, or without its first components.

    Args:
        model: the encoder's name.
        encoder: without the map.
        mapped: with the map.
        fitted: the map.
        text: that it was fitted to: name, number of texts and hash.
    """
    if isinstance(fitted, AllButTheTop):
        title, how = _WITHOUT_TOP
        left_out = f", {number_of(fitted.removed, 'component')} removed"
    else:
        title, how = _WHITENED
        dropped = fitted.dropped if isinstance(fitted, Whitening) else 0
        left_out = f" ({dropped} without variance)" if dropped else ""
    name = as_text(public_name(model))
    return framed(
        _MAPPED.format(
            title=title,
            how=how.format(model=name),
            model=name,
            pooling=encoder.pooling,
            text=text,
            before=encoder.dimension,
            after=fitted.dimension,
            left_out=left_out,
        ),
        mapped,
        base=model,
    )


def fitted_text(name: str, fingerprint: str, texts: int) -> str:
    """The text that a map was fitted to, for `mapped_card`."""
    return f"{as_text(public_name(name))}: {number_of(texts, 'text')}; content hash {fingerprint[:16]}"
