"""Writes the parts that all model cards share: metadata for the Hub, the encoder, its limits, how to use it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opencse.environment import installed
from opencse.folder_kinds import TABLE
from opencse.markdown import as_text, without_home
from opencse.model_folder.layout import THIS_FOLDER
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Role
from opencse.numerals import number_of
from opencse.version import __version__

if TYPE_CHECKING:
    from opencse.encoder.network import EncoderNetwork

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_PLAIN = """# Sentence encoder written by OpenCSE

Nothing is recorded here of how it was made or how well it does.

"""
_ENCODER = """## The encoder

| | |
|---|---|
| network | {network}, {parameters:.1f}M parameters, {layers} |
| vectors | {dimension} dimensions, pooling {pooling}, {normalized} |
| longest text | {max_length:,} ids; longer texts are truncated |
| prompts | {prompt} |{template}
| written by | {versions} |

"""
_LIMITS = (
    "What the start and the text say wrongly or unfairly is in the vectors too; nobody has looked for it.",
    "Whether it fits other kinds of text or other languages than those it was made from is not known: evaluate it on "
    "your own (`opencse evaluate`).",
    "A cosine means nothing by itself and cannot be compared between models; `opencse calibrate` says what it means on "
    "your text.",
)
_USE = """## Use

With sentence-transformers:

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{here}")
vectors = model.encode(["One sentence.", "Another one."])
```

With OpenCSE (`pip install opencse`), the same vectors:

```python
import opencse

encoder = opencse.load("{here}")
vectors = encoder.encode(["One sentence.", "Another one."])
```
"""
_RETRIEVAL = """
Queries and documents have their own prompts, which these put before the texts (the same in sentence-transformers):

```python
queries = encoder.encode_query(["What is leaking?"])
documents = encoder.encode_document(["The valve leaks."])
```
"""
_ONNX = """
With onnxruntime, tokenizers and numpy alone, after an export (`pip install "opencse[export]"`):

```
opencse export onnx {here} --out exported
```

`exported/README.md` then holds a program of some twenty lines that needs nothing else.
"""


def plain_card(encoder: EncoderNetwork) -> str:
    """The card of an encoder whose training is not recorded."""
    return framed(_PLAIN, encoder)


def framed(body: str, encoder: EncoderNetwork, *, base: str | None = None, limits: Sequence[str] = ()) -> str:
    """The full text of a card.

    Args:
        body: title, and how the encoder was made.
        encoder: that the card describes.
        base: the model it was made from; named in the metadata if it is on the Hub.
        limits: sentences in addition to those in every card.
    """
    config = encoder.backbone.config
    packages = ((name, installed(name)) for name in ("torch", "transformers"))
    description = _ENCODER.format(
        network=as_text(type(encoder.backbone).__name__),
        parameters=sum(p.numel() for p in encoder.parameters()) / 1e6,
        layers=number_of(encoder.depth, "layer"),
        dimension=encoder.dimension,
        pooling=f"{encoder.pooling}{_weighing(encoder)}",
        normalized="L2-normalised" if encoder.normalize else "not normalised",
        max_length=encoder.max_length,
        prompt=as_text(encoder.prompts.line(*Role) + encoder.prompts.note) if encoder.prompts else "none",
        template=_template(encoder),
        versions=", ".join([f"opencse {__version__}", *(f"{name} {version}" for name, version in packages if version)]),
    )
    limits_list = "".join(f"- {limit}\n" for limit in (*limits, *_LIMITS))
    use = _USE + (_RETRIEVAL if encoder.prompts.differ else "") + ("" if config.model_type == TABLE else _ONNX)
    head = front_matter("sentence-transformers", ["sentence-transformers"], base)
    return without_home(f"{head}{body}{description}## Limits\n\n{limits_list}\n{use.format(here=THIS_FOLDER)}")


def _template(encoder: EncoderNetwork) -> str:
    template = encoder.tokenizer.template
    if template is None:
        return ""
    how = (
        "; its last mask token has an id of its own, which WordWeights reads" if encoder.pooling is Pooling.MASK else ""
    )
    return f"\n| template | {as_text(template.text)}, put around every text by tokenizer.json{how} |"


def _weighing(encoder: EncoderNetwork) -> str:
    if encoder.token_weights is None:
        return ""
    table = encoder.backbone.config.model_type == TABLE
    return ", unknown tokens left out" if table else ", tokens weighed (WordWeights)"


def front_matter(library: str, tags: Sequence[str], base: str | None) -> str:
    """The metadata of a card for the Hub, in YAML between dashes."""
    from huggingface_hub import ModelCardData

    on_the_hub = base is not None and _HUB_ID.fullmatch(base) is not None and not Path(base).exists()
    data = ModelCardData(
        base_model=base if on_the_hub else None,
        library_name=library,
        pipeline_tag="sentence-similarity",
        tags=[*tags, "sentence-similarity", "feature-extraction", "opencse"],
    )
    return f"---\n{data.to_yaml()}\n---\n\n"
