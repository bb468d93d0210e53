"""Options of `opencse.serve`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from opencse.api.declaring import Option
from opencse.api.options.shared import ModelOptions, PrecisionOptions, RerankOptions


class ServeOptions(PrecisionOptions, ModelOptions, RerankOptions, total=False):
    """What a server serves, to whom, and within which limits."""

    index: Annotated[
        str | Path | Sequence[str | Path] | None,
        Option(
            None,
            "Folder of an index (opencse index build) to search; may be repeated.",
            repeated=True,
            in_python="folder of an index, or several; each is searched with the model that it was built with. For "
            "models without an index, the texts of the first one are encoded at the start.",
        ),
    ]
    name: Annotated[
        Sequence[str] | None,
        Option(
            None,
            "Name of a model in requests, in the models' order; may be repeated. By default the folder's name.",
            repeated=True,
            in_python="names of the models in requests, in their order; by default the last part of folder or id.",
        ),
    ]
    host: Annotated[str, Option("127.0.0.1", "Address to listen on; 0.0.0.0 lets other machines in.")]
    port: Annotated[int, Option(8000, "Port to listen on; 0 takes a free one.", least=0, most=65535)]
    api_key_file: Annotated[
        str | Path | None,
        Option(
            None,
            "File of API keys, one per line; or set OPENCSE_API_KEY. By default no key is needed.",
            file=True,
            in_python="file of API keys, one per line, one of which requests must send. By default the key is "
            "``OPENCSE_API_KEY``, if that variable is set; otherwise no key is needed.",
        ),
    ]
    allow_host: Annotated[
        Sequence[str] | None,
        Option(
            None,
            "Host name that requests may use, for instance behind a proxy; may be repeated.",
            repeated=True,
            in_python="host names that requests may use in addition to this machine's own, if no key is needed and "
            "``host`` is local; for instance behind a proxy.",
        ),
    ]
    too_long: Annotated[
        Literal["cut", "refuse"],
        Option(
            "cut",
            "Truncate or refuse texts longer than the model reads, unless the request says otherwise.",
            in_python="what happens to texts longer than the model reads, unless a request says otherwise "
            "(``truncate``): ``cut`` truncates them and lists them in the answer, ``refuse`` answers an error.",
        ),
    ]
    max_body: Annotated[int, Option(4 * 2**20, "Bytes in a request, at most.", least=1)]
    max_texts: Annotated[int, Option(2_048, "Texts in a request, at most.", least=1)]
    max_waiting: Annotated[
        int, Option(8_192, "Texts that may wait, at most; further requests get status 503.", least=1)
    ]
    grace: Annotated[
        float, Option(30, "Seconds that running requests get to finish when the server stops.", least=1, most=86_400)
    ]
