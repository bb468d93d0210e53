"""The model cards: of a trained encoder, and of one made by counting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from huggingface_hub import ModelCardData

from opencse.markdown import as_text
from opencse.recipes.recipe import Recipe
from opencse.text.corpus import CorpusFacts

if TYPE_CHECKING:
    from opencse.baselines.whitening import Whitening
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.export.distil import Distilled, DistilSettings
    from opencse.making.static import Static, StaticSettings

_TRAINED = """# Sentence encoder trained with OpenCSE

| | |
|---|---|
| recipe | {recipe} ({title}) |
| paper | {paper} |
| started from | {model} |
| text | {rows:,} rows, {tokens:,} tokens; content hash {fingerprint} |
| temperature, batch, learning rate, seed | {temperature}, {batch}, {rate:g}, {seed} |
| kept | {kept}: {verdict} |

The files beside this card (`run.json`, `metrics.jsonl`) hold every setting and the log of training.

"""
_COUNTED = """# Sentence encoder made with OpenCSE by counting words

A text's vector is the weighted average of its words' vectors, which come from counts of the words that stand near each
other: positive pointwise mutual information, truncated SVD, SIF weights, whitening. Nothing was trained. The folder
holds {network}.

| | |
|---|---|
| text | {rows:,} rows, {tokens:,} tokens; content hash {fingerprint} |
| tokenizer | {tokenizer} |
| counted | {pieces:,} pieces of {vocabulary:,}, {pairs:,} different pairs up to {window} apart |
| dimension, layers | {dimension}, {layers} |
| settings | {settings} |

"""
_WHITENED = """# Sentence encoder whitened with OpenCSE

The vectors of {model}, put through a linear map after which those of the text below have mean zero and uncorrelated
coordinates of variance one (Su et al. 2021, BERT-whitening). Nothing was trained; the map is the last Dense layer.

| | |
|---|---|
| encoder | {model} |
| pooling | {pooling} |
| text | {text}: {sentences:,} texts; content hash {fingerprint} |
| dimension | {before} to {after}{dropped} |

"""
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
_USE = """## Use

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
vectors = model.encode(["One sentence.", "Another one."])
```

or, with the same vectors:

```python
from opencse import SentenceEncoder

encoder = SentenceEncoder.load("path/to/this/folder")
vectors = encoder.encode(["One sentence.", "Another one."])
```
"""


def _card(body: str) -> str:
    """A card of the Hub: what it says to programs, ``body``, and how to use the encoder."""
    data = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", "sentence-similarity", "opencse"],
    )
    return f"---\n{data.to_yaml()}\n---\n\n{body}{_USE}"


def model_card(recipe: Recipe, model: str, corpus: CorpusFacts, kept: str, verdict: str) -> str:
    """Markdown that tells what the encoder is, how it came about, and how to use it."""
    tokens = recipe.training.batch_tokens
    return _card(
        _TRAINED.format(
            recipe=as_text(recipe.name),
            title=as_text(recipe.title),
            paper=as_text(recipe.paper or "-"),
            model=as_text(model),
            rows=corpus.rows,
            tokens=corpus.tokens,
            fingerprint=corpus.fingerprint[:16],
            temperature=recipe.objective.temperature if recipe.objective.negatives else "-",
            batch=f"{tokens:,} tokens" if tokens else recipe.training.batch_size,
            rate=recipe.training.learning_rate,
            seed=recipe.training.seed,
            kept=kept,
            verdict=as_text(verdict),
        )
    )


def counted_card(facts: CorpusFacts, made: Static, settings: StaticSettings, tokenizer: str, vocabulary: int) -> str:
    """Markdown that tells how an encoder of counted words was made, and how to use it."""
    shown = settings.model_dump(exclude={"dimension", "layers", "window"}) | {"heads": settings.attention_heads}
    network = "the embeddings of a BERT without layers"
    if settings.layers:
        network = f"a BERT whose {settings.layers} layers do nothing until `opencse train --model` trains them"
    return _card(
        _COUNTED.format(
            network=network,
            rows=facts.rows,
            tokens=facts.tokens,
            fingerprint=facts.fingerprint[:16],
            tokenizer=as_text(tokenizer),
            pieces=made.pieces,
            vocabulary=vocabulary,
            pairs=made.pairs,
            window=settings.window,
            dimension=settings.dimension,
            layers=settings.layers,
            settings=", ".join(f"{key} {value:g}" for key, value in shown.items()),
        )
    )


def distilled_card(model: str, made: Distilled, settings: DistilSettings) -> str:
    """Markdown that tells what a table of word vectors was made of, and how to use it."""
    fitted = ""
    if made.before is not None:
        fitted = (
            f", fitted to the encoder's vectors of {made.texts:,} texts (mean cosine {made.before:.3f} before, "
            f"{made.after:.3f} after)"
        )
    return _card(
        _DISTILLED.format(
            model=as_text(model),
            fitted=fitted,
            rows=made.rows,
            dimension=made.encoder.dimension,
            words=made.words,
            settings=", ".join(f"{key} {value}" for key, value in settings.model_dump().items()),
        )
    )


def whitened_card(
    model: str, encoder: SentenceEncoder, whitening: Whitening, text: str, fingerprint: str, sentences: int
) -> str:
    """Markdown that tells what was whitened on what, and how to use it."""
    dropped = f" ({whitening.dropped} without variance)" if whitening.dropped else ""
    return _card(
        _WHITENED.format(
            model=as_text(model),
            pooling=encoder.pooling,
            text=as_text(text),
            sentences=sentences,
            fingerprint=fingerprint[:16],
            before=encoder.dimension,
            after=whitening.dimension,
            dropped=dropped,
        )
    )
