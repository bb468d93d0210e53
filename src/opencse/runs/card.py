"""Writes the model card (README.md) of a trained encoder."""

from __future__ import annotations

from collections.abc import Mapping

from opencse.encoder.card import framed
from opencse.encoder.encoder import SentenceEncoder
from opencse.markdown import as_text, public_name
from opencse.numerals import number_of
from opencse.recipes.recipe import Recipe
from opencse.text.corpus import CorpusFacts

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
