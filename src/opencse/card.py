"""The model card of a trained encoder."""

from __future__ import annotations

from opencse.recipe import Recipe
from opencse.text.corpus import CorpusFacts

_CARD = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-transformers, sentence-similarity, opencse]
---

# Sentence encoder trained with OpenCSE

| | |
|---|---|
| recipe | {recipe} ({title}) |
| paper | {paper} |
| started from | {model} |
| text | {rows:,} rows, {tokens:,} tokens; content hash {fingerprint} |
| temperature, batch, learning rate, seed | {temperature}, {batch}, {rate:g}, {seed} |
| kept | {kept}: {verdict} |

The files beside this card (`run.json`, `metrics.jsonl`) hold every setting and the course of training.

## Use

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


def model_card(recipe: Recipe, model: str, corpus: CorpusFacts, kept: str, verdict: str) -> str:
    """Markdown that tells what the encoder is, how it came about, and how to use it."""
    tokens = recipe.training.batch_tokens
    return _CARD.format(
        recipe=recipe.name,
        title=recipe.title,
        paper=recipe.paper or "-",
        model=model,
        rows=corpus.rows,
        tokens=corpus.tokens,
        fingerprint=corpus.fingerprint[:16],
        temperature=recipe.objective.temperature if recipe.objective.negatives else "-",
        batch=f"{tokens:,} tokens" if tokens else recipe.training.batch_size,
        rate=recipe.training.learning_rate,
        seed=recipe.training.seed,
        kept=kept,
        verdict=verdict,
    )
