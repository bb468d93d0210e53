"""Options of `opencse.questions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from opencse.api.declaring import Option
from opencse.api.options.shared import DocumentOptions, ModelOptions

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder


class AskingOptions(DocumentOptions, ModelOptions, total=False):
    """How a language model is asked for questions, and which of them are kept."""

    per_document: Annotated[
        int, Option(3, "Questions about each document, and about each passage of a long one.", least=1)
    ]
    documents: Annotated[
        int | None, Option(None, "Ask about so many documents, spread over the corpus; by default about all.", least=1)
    ]
    passages: Annotated[int, Option(8, "Passages of a long document that are asked about, at most.", least=1)]
    examples: Annotated[
        str | Path | Sequence[str] | None,
        Option(
            None,
            "File of queries that your users typed, one per line: their style, length and language are imitated.",
            in_python="queries that users typed, or a file of them; their style, length and language are imitated.",
        ),
    ]
    language: Annotated[
        str | None,
        Option(
            None,
            "Language to write in, such as German; questions that are clearly in another one are dropped. By default "
            "that of the examples, or of the text.",
        ),
    ]
    template: Annotated[
        str | Path | None,
        Option(
            None,
            "File with another prompt, a Jinja template: {{ text }}, {{ title }}, {{ count }}, {{ examples }}, "
            "{{ language }}; --dry-run shows the prompt.",
        ),
    ]
    round_trip: Annotated[
        int,
        Option(
            10,
            "Keep a question only if a search by words (BM25) or by --encoder has its document among the first K; 0: "
            "keep all.",
            least=0,
        ),
    ]
    encoder: Annotated[
        str | Path | SentenceEncoder,
        Option("opencse-mini", "Encoder that splits long documents into passages, and searches for --round-trip."),
    ]
    max_length: Annotated[
        int | None,
        Option(None, "Tokens of the longest passage; by default as many as the encoder reads.", least=1),
    ]
    shortest: Annotated[int, Option(2, "Words of a question, at least.", least=1)]
    longest: Annotated[int, Option(40, "Words of a question, at most.", least=1)]
    key_variable: Annotated[
        str | None,
        Option(None, "Environment variable that holds the key of the API; by default no key is sent."),
    ]
    temperature: Annotated[float, Option(0.7, "How freely the model writes; 0: always the likeliest word.", least=0)]
    max_tokens: Annotated[int, Option(1024, "Tokens of the longest answer.", least=1)]
    body: Annotated[
        Mapping[str, Any] | None,
        Option(
            None,
            'More fields of each request, as JSON: \'{"top_p": 0.9}\'; null leaves a field out: \'{"temperature": '
            "null}'.",
            in_python="more fields of each request; None leaves a field out.",
        ),
    ]
    workers: Annotated[int, Option(4, "Requests at the same time.", least=1)]
    requests_per_minute: Annotated[float | None, Option(None, "Requests per minute, at most.", least=0.01)]
    timeout: Annotated[float, Option(120.0, "Seconds in which an answer must be complete.", least=0.1)]
    price_in: Annotated[float | None, Option(None, "Price of a million tokens of prompts, to print the cost.", least=0)]
    price_out: Annotated[float | None, Option(None, "Price of a million tokens of answers.", least=0)]
    seed: Annotated[int, Option(42, "Seed of the draw of documents.", rank=6)]
    overwrite: Annotated[
        bool, Option(False, "Replace the pairs in --out; answers that are there already are used again.", rank=6)
    ]
    dry_run: Annotated[
        bool, Option(False, "Print how many requests and tokens it takes, and one prompt; send nothing.", rank=6)
    ]
