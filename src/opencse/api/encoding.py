"""Vectors of texts: in memory, in a file, in a folder of files, or one after the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO, overload

from opencse.api.models import Model, encoded, open_encoder
from opencse.bulk.folders import encode_folder
from opencse.bulk.forms import Form, Numbers
from opencse.bulk.shards import FileFormat
from opencse.bulk.streaming import SUFFIX, EncodedFile, Precision, encode_file, write_lines
from opencse.encoder.encoder import SentenceEncoder, Vectors
from opencse.encoder.encoding import WINDOW
from opencse.engines.choice import Engine, require_engine
from opencse.errors import InterruptedRunError, UserError, plain_failures
from opencse.foreign import checks_trust
from opencse.modules.prompts import Role
from opencse.outputs import paths_of, require_absent, require_apart
from opencse.progress import Counted, Progress, Silent
from opencse.text.given import GivenTexts, Text, open_texts


@overload
def encode(
    model: Model,
    text: Text,
    out: None = None,
    *,
    column: str | None = None,
    fields: Sequence[str] | None = None,
    keep_code: bool = False,
    prompt_name: str | None = None,
    prompt: str | None = None,
    normalize: bool = False,
    dimensions: int | None = None,
    precision: Precision = "float32",
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Vectors: ...


@overload
def encode(
    model: Model,
    text: Text,
    out: str | Path | TextIO,
    *,
    column: str | None = None,
    fields: Sequence[str] | None = None,
    keep_code: bool = False,
    prompt_name: str | None = None,
    prompt: str | None = None,
    normalize: bool = False,
    numbers: Numbers = "float32",
    dimensions: int | None = None,
    file_format: FileFormat = "npy",
    shard_rows: int = WINDOW,
    processes: int | None = 1,
    engine: Engine = "local",
    precision: Precision = "float32",
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> EncodedFile: ...


@plain_failures
@checks_trust
def encode(
    model: Model,
    text: Text,
    out: str | Path | TextIO | None = None,
    *,
    column: str | None = None,
    fields: Sequence[str] | None = None,
    keep_code: bool = False,
    prompt_name: str | None = None,
    prompt: str | None = None,
    normalize: bool = False,
    numbers: Numbers = "float32",
    dimensions: int | None = None,
    file_format: FileFormat = "npy",
    shard_rows: int = WINDOW,
    processes: int | None = 1,
    engine: Engine = "local",
    precision: Precision = "float32",
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Vectors | EncodedFile:
    """The vectors of a text, as an array, or written to a file or a folder as they are made.

    Written, at most 32,768 texts and their vectors are in memory (of each process), and the same call goes on where it
    was broken off. For texts at hand, `SentenceEncoder.encode` has more to choose from.

    Args:
        model: the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`.
        text: a file, a Hub data set id, a `Source`, or a list of texts. Of rows of several texts the first is taken.
            Vector i is of line i + 1 of a text file: blank lines are refused, but for those at its end.
        out: ``.npy`` file to write, a folder for files of ``shard_rows`` vectors each and a manifest, or an open text
            file for JSON lines (``text``, ``vector``); with a list of texts there is none.
        column: of a file, by name or position: a vector for each of its texts.
        fields: what a file calls its documents' title and text, or the text alone: a vector for each of their
            sentences, as for a file of prose (Markdown, HTML, PDF, ...) without a ``column``; see `opencse.train`.
        keep_code: keep code blocks of HTML and Markdown.
        prompt_name: name of the model's prompt that is put before each text (``query``, ``document``, ...); by default
            its default prompt, if it has one. See `SentenceEncoder.encode`.
        prompt: text that is put before each text instead.
        normalize: L2-normalise the vectors.
        numbers: that are written: ``float32``, ``float16``, ``int8`` or ``binary``; see `opencse.bulk.forms.Form`.
        dimensions: keep only the first ones; for models trained so (Matryoshka).
        file_format: of the files in a folder: ``npy`` or ``parquet``.
        shard_rows: vectors in each of them.
        processes: that make a folder; None: one for each GPU, or on the CPU as many as cores and memory allow. A
            script that starts several needs its ``if __name__ == "__main__"``.
        engine: that fills a folder: ``local``, processes of this machine; ``ray``, actors of a Ray cluster.
        precision: ``float32``, or ``bf16`` (faster where the processor has it).
        pooling: replaces the model's own.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        overwrite: put one file in the place of one that is there; the old one stays until the new one is whole.
        progress: hears of it.

    Returns:
        (n, dimension) float32, or what was written to ``out``.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C while a file is written.
    """
    tell = progress or Silent()
    require_engine(engine)
    if engine != "local" and not (isinstance(out, str | Path) and _is_folder(out)):
        raise UserError(f"the engine {engine} fills folders; name one as out (--out FOLDER)")
    of_folders = (file_format, shard_rows) != ("npy", WINDOW) or processes not in (None, 1)
    if of_folders and not (isinstance(out, str | Path) and _is_folder(out)):
        raise UserError("format, rows of a file and processes are of folders; name one as out (--out FOLDER)")
    if isinstance(out, str | Path):
        require_apart(out, read=paths_of(text), models=paths_of(model))
        if not _is_folder(out):
            require_absent(out, overwrite=overwrite)
    source = open_texts(
        text, columns=None if column is None else [column], fields=fields, keep_code=keep_code, say=tell.say
    )
    form = Form(numbers, dimensions, normalize)
    if out is None:
        if numbers != "float32":
            raise UserError("numbers are of vectors that are written; name out, or use opencse.bulk.forms.Form")
        encoder = open_encoder(model, tell, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
        form.require(encoder.dimension)
        if not isinstance(source, GivenTexts):
            source.count_rows()
        first = [row[0] for row in source.read().rows]
        before = encoder.prompts.chosen(Role.PLAIN, prompt_name, prompt)
        return form.of(encoded(encoder, first, "encoding", tell, prompt=before, precision=precision))
    if isinstance(source, GivenTexts):
        raise UserError(
            f"{source.name}: vectors are written of a file alone; index a folder (opencse index build), and of a list "
            "of texts take the vectors that are returned (numpy.save)"
        )
    if not isinstance(out, str | Path):
        encoder = open_encoder(model, tell, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
        before = encoder.prompts.chosen(Role.PLAIN, prompt_name, prompt)
        return write_lines(source, out, encoder, prompt=before, form=form, precision=precision, say=tell.say)
    given = open_encoder(model, tell, pooling=pooling, device=device) if isinstance(model, SentenceEncoder) else model
    try:
        if _is_folder(out):
            return encode_folder(
                source,
                out,
                given,
                form=form,
                file_format=file_format,
                shard_rows=shard_rows,
                processes=processes,
                engine=engine,
                prompt_name=prompt_name,
                prompt=prompt,
                precision=precision,
                pooling=pooling,
                device=device,
                trust_remote_code=trust_remote_code,
                progress=Counted(tell, "encoding"),
                say=tell.say,
            )
        return encode_file(
            source,
            out,
            given,
            form=form,
            prompt_name=prompt_name,
            prompt=prompt,
            precision=precision,
            pooling=pooling,
            device=device,
            trust_remote_code=trust_remote_code,
            progress=Counted(tell, "encoding"),
            say=tell.say,
        )
    except KeyboardInterrupt:
        raise InterruptedRunError("stopped; the same command continues from here") from None
    finally:
        tell.finish()


def _is_folder(out: str | Path) -> bool:
    """Whether ``out`` names a folder: it is there, or its name has no suffix of a file.

    Raises:
        UserError: for a file that is not written.
    """
    path = Path(out)
    if path.suffix == SUFFIX:
        return False
    if not path.is_dir() and re.fullmatch(r"\.[A-Za-z][A-Za-z0-9]{0,6}", path.suffix):
        raise UserError(
            f"{out}: one file of vectors is written as {SUFFIX}; name it so, or for many files name a folder "
            "(without a suffix)"
        )
    return True
