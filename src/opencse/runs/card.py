"""Writes the model card (README.md) of a model: trained, built from word counts, whitened, distilled or merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from opencse.encoder.card import framed
from opencse.markdown import as_text, public_name
from opencse.numerals import number_of
from opencse.recipes.recipe import Recipe
from opencse.text.corpus import CorpusFacts

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.evaluation.models.whitening import LinearMap
    from opencse.export.distil import Distilled, DistilSettings
    from opencse.making.static import Static, StaticSettings

_TRAINED = """# Sentence encoder trained with OpenCSE

| | |
|---|---|
| recipe | {recipe} ({title}) |
| paper | {paper} |
| started from | {model} |
| text | {rows}, {tokens:,} tokens; content hash {fingerprint} |{further}
| temperature, batch, learning rate, seed | {temperature}, {batch}, {rate:g}, {seed} |
| kept | {kept}: {verdict} |

In the folder of the run, `run.json` and `metrics.jsonl` hold every setting and the log of training.

## Scores

{scores}

"""
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
_WHITENED = """# Sentence encoder whitened with OpenCSE

The vectors of {model}, put through a linear map after which those of the text below have mean zero and uncorrelated
coordinates of variance one (Su et al. 2021, BERT-whitening). Nothing was trained; the map is the last Dense layer.

| | |
|---|---|
| encoder | {model} |
| pooling | {pooling} |
| text | {text}: {sentences}; content hash {fingerprint} |
| dimension | {before} to {after}{dropped} |

"""
_WITHOUT_TOP = """# Sentence encoder without its dominant components, by OpenCSE

The vectors of {model}, less the mean of those of the text below and their projection on the first principal components
(Mu and Viswanath 2018, All-but-the-Top). Nothing was trained; the map is the last Dense layer.

| | |
|---|---|
| encoder | {model} |
| pooling | {pooling} |
| text | {text}: {sentences}; content hash {fingerprint} |
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
_MERGED = """# Sentence encoder with merged adapters

The adapters (LoRA) of {adapters}, merged into the weights of {base}.

| | |
|---|---|
| adapters | {adapters} |
| model | {base} |
| pooling, dimensions | {pooling}, {dimension} |

"""


def model_card(
    recipe: Recipe, model: str, corpus: CorpusFacts, encoder: SentenceEncoder, *, which: str, verdict: str, scores: str
) -> str:
    """Returns the card of a trained encoder: how it was trained, what it scores, and how to use it.

    Args:
        recipe: with everything set.
        model: the start.
        corpus: the text.
        encoder: of the card.
        which: encoder of the run: ``best``, ``last``, ``start`` or ``given``.
        verdict: the run's outcome.
        scores: by `score_lines`.
    """
    tokens = recipe.training.batch_tokens
    return framed(
        _TRAINED.format(
            recipe=as_text(recipe.name),
            title=as_text(recipe.title),
            paper=as_text(recipe.paper or "-"),
            model=as_text(public_name(model)),
            rows=number_of(corpus.rows, "row"),
            tokens=corpus.tokens,
            fingerprint=corpus.fingerprint[:16],
            further=_further(recipe),
            temperature=recipe.objective.temperature if recipe.objective.negatives else "-",
            batch=f"{tokens:,} tokens" if tokens else recipe.training.batch_size,
            rate=recipe.training.learning_rate,
            seed=recipe.training.seed,
            kept=which,
            verdict=as_text(verdict),
            scores=scores,
        ),
        encoder,
        base=model,
        limits=(
            f"Training truncated texts to {corpus.max_length} ids: it has learned only the beginning of longer ones.",
            f"It is one run, with seed {recipe.training.seed}; another seed gives other vectors and other scores.",
        ),
    )


def _further(recipe: Recipe) -> str:
    """The row of a card that names further data sets; empty without any."""
    names = ", ".join(as_text(one.name) for one in recipe.datasets or ())
    return f"\n| further data sets, mixed in | {names} |" if names else ""


def score_lines(
    scores: Mapping[int, float], dev: str, measure: str, seed: int, own_pooling: float | None = None
) -> str:
    """Returns the dev scores of a run as Markdown.

    Args:
        scores: x 100, by step; 0 is the start; empty if nothing was evaluated.
        dev: name of the dev data.
        measure: name of the score.
        seed: of the run.
        own_pooling: the score of the start with its own pooling, where training uses another.
    """
    if not scores:
        return "None: nothing was evaluated, so nothing shows whether it is better than its start."
    last, best = max(scores), max(scores, key=lambda step: scores[step])
    rows = [("start", scores[0])] if 0 in scores else []
    rows += [] if own_pooling is None else [("start, as given", own_pooling)]
    rows += [(f"best, step {best:,}", scores[best]), (f"last, step {last:,}", scores[last])]
    table = "".join(f"| {name} | {value:.2f} |\n" for name, value in rows)
    return (
        f"| on {as_text(public_name(dev))} | {as_text(measure)} |\n|---|---|\n{table}\n"
        f"From one run, seed {seed}. The best step was selected by these same scores, so they are optimistic."
    )


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


def whitened_card(
    model: str,
    encoder: SentenceEncoder,
    whitened: SentenceEncoder,
    whitening: LinearMap,
    text: str,
    fingerprint: str,
    sentences: int,
) -> str:
    """Returns the card of a whitened encoder, or of one without its first components."""
    from opencse.evaluation.models.all_but_the_top import AllButTheTop
    from opencse.evaluation.models.whitening import Whitening

    left_out = whitening.dropped if isinstance(whitening, Whitening) else 0
    dropped = f" ({left_out} without variance)" if left_out else ""
    page = _WHITENED
    if isinstance(whitening, AllButTheTop):
        page, dropped = _WITHOUT_TOP, f", {number_of(whitening.removed, 'component')} removed"
    return framed(
        page.format(
            model=as_text(public_name(model)),
            pooling=encoder.pooling,
            text=as_text(public_name(text)),
            sentences=number_of(sentences, "text"),
            fingerprint=fingerprint[:16],
            before=encoder.dimension,
            after=whitening.dimension,
            dropped=dropped,
        ),
        whitened,
        base=model,
    )
