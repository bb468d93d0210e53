"""Writes the vectors of a text of any length to a file, window by window; continues after a kill.

Until the file is whole it is called ``NAME.partial``, with its record next to it; see `opencse.crash_safe`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from opencse.bulk.forms import Form, first_wrong
from opencse.crash_safe import ResumableFile, partial_path, record_path
from opencse.encoder.batches import WINDOW, require_options
from opencse.encoder.damage import DamagedVectorError
from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.opening import load
from opencse.encoder.text_encoder import TextEncoder
from opencse.encoder.unknown_tokens import warn_of_unknown_tokens
from opencse.errors import UserError, reason
from opencse.foreign import code_notice
from opencse.io import WRITING, npy_header
from opencse.modules.prompts import Role
from opencse.numerals import number_of
from opencse.outputs import has_keys
from opencse.progress import Count, Say
from opencse.text.files.formats import RawRow
from opencse.text.given import FileTexts

if TYPE_CHECKING:
    from opencse.kernels.precision import PrecisionName

SUFFIX = ".npy"
_NPY = b"\x93NUMPY"


@dataclass(frozen=True)
class EncodedFile:
    """A report of what was written.

    Attributes:
        rows: number of vectors in the file, or in all files of the folder.
        dimension: of each vector.
        before: number of the rows that an earlier, interrupted call had written.
        seconds: spent on the other rows.
        files: number of files.
    """

    rows: int
    dimension: int
    before: int
    seconds: float
    files: int = 1


def encode_file(
    source: FileTexts,
    out: str | Path,
    model: str | Path | TextEncoder,
    *,
    form: Form | None = None,
    prompt_name: str | None = None,
    prompt: str | None = None,
    precision: PrecisionName = "float32",
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    window: int = WINDOW,
    progress: Count | None = None,
    say: Say | None = None,
) -> EncodedFile:
    """Writes the vectors of ``source`` (its first column) to ``out``: (rows, width) as ``form`` says, in ``.npy``.

    The text is read three times, first to count and check it; at most ``window`` texts and their vectors are in memory.
    After an interruption (a kill, Ctrl-C, a full disk) the same call continues after the last whole window, and the
    file is the same to the bit as that of an uninterrupted call. The previous content of ``out`` stays until the new
    file is whole.

    Args:
        source: texts.
        out: the file; its folder must exist.
        model: what `SentenceEncoder.load` takes, or an encoder.
        form: type of the numbers, dimensions, normalisation; by default float32, all, none.
        prompt_name: name of the model's prompt that is put before each text; see `SentenceEncoder.encode`.
        prompt: text that is put before each text instead.
        precision: see `SentenceEncoder.encode`.
        pooling: replaces the model's own (not with an encoder).
        device: where to put the model (not with an encoder).
        trust_remote_code: see `SentenceEncoder.load` (not with an encoder).
        window: number of texts that are encoded, written and recorded together.
        progress: called with (texts done, texts in all).
        say: called with one line if an earlier call is continued, or why it is not.

    Raises:
        UserError: for a file that cannot be written (before any other work), a fault in the text or the model, or a
            vector that is not finite, naming the line of its text.
    """
    if window < 1:
        raise UserError(f"window is at least 1, not {window}")
    require_options(precision)
    target = _checked_target(Path(out))
    _require_own(target)
    rows = source.count_rows()
    text = source.fingerprint()
    form, say = form or Form(), say or _silent
    encoder = open_for_form(model, form, say, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    prompt = encoder.prompts.requested(Role.PLAIN, prompt_name, prompt)
    identity = {"version": 2, **identity_of(text, rows, encoder, prompt, form, precision), "window": window}
    try:
        width = form.width(form.kept_dimensions(encoder.dimension))
        header, row_size = npy_header(form.stored, (rows, width)), width * form.stored.itemsize
        with ResumableFile.open(target, identity, header=header, row_size=row_size, say=say) as file:
            before, started = file.done, time.perf_counter()
            for records in _windows(source, before, window):
                first = [texts[0] for _, texts in records]
                if file.done == before:
                    warn_of_unknown_tokens(encoder, first, say)
                counting = None if progress is None else _counted_from(file.done, rows, progress)
                try:
                    written = written_vectors(encoder, first, prompt, form, precision, counting)
                except DamagedVectorError as error:
                    file.discard()
                    raise fault(source, records[error.row][0].number, error) from None
                file.add(np.ascontiguousarray(written, dtype=form.stored).tobytes(), len(written))
            if file.done != rows:
                file.discard()
                raise UserError(
                    f"{source.name}: changed while it was read ({number_of(rows, 'text')}, then {file.done:,})"
                )
            file.finish()
            return EncodedFile(rows, form.kept_dimensions(encoder.dimension), before, time.perf_counter() - started)
    except OSError as error:
        partial = partial_path(target)
        continues = f"; finished rows are in {partial.name}, and the same command continues" if partial.exists() else ""
        raise UserError(f"{out}: cannot be written ({reason(error)}){continues}") from None


def open_for_form(
    model: str | Path | TextEncoder,
    form: Form,
    say: Say,
    *,
    pooling: str | None,
    device: str | None,
    trust_remote_code: bool,
) -> TextEncoder:
    """Loads ``model`` unless it is an encoder; checks that ``form`` fits, and reports code of its folder that runs."""
    if isinstance(model, TextEncoder):
        encoder = model
    else:
        encoder = load(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
        if encoder.own_code:
            say(code_notice(encoder.own_code))
    form.require(encoder.dimension)
    return encoder


def identity_of(
    text: str, rows: int, encoder: TextEncoder, prompt: str, form: Form, precision: PrecisionName
) -> dict[str, Any]:
    """Everything that vectors depend on; a call continues an earlier one only if this is equal."""
    return {
        "text": text,
        "rows": rows,
        "model": fingerprint(encoder),
        "prompt": prompt or None,
        "dimension": form.kept_dimensions(encoder.dimension),
        "numbers": form.numbers,
        "normalize": form.normalize,
        "precision": precision,
        "device": encoder.device_kind,
    }


def written_vectors(
    encoder: TextEncoder,
    texts: Sequence[str],
    prompt: str,
    form: Form,
    precision: PrecisionName,
    progress: Count | None = None,
) -> NDArray[Any]:
    """Encodes ``texts``, each with ``prompt`` before it: (n, width), in the type that ``form`` writes.

    Raises:
        DamagedVectorError: for a vector that holds NaN or infinity, or does not fit into the numbers of ``form``.
    """
    written = form.of(encoder.encode(texts, prompt=prompt, precision=precision, progress=progress))
    if (row := first_wrong(written)) is not None:
        raise DamagedVectorError(
            f"the vector of {texts[row][:40]!r} does not fit into float16; normalise it or write float32", row
        )
    return written


def fault(source: FileTexts, line: int, error: DamagedVectorError) -> UserError:
    """The error for a text whose vector is not finite."""
    return UserError(f"{source.name}, {source.unit} {line}: {error}")


def write_lines(
    source: FileTexts,
    out: TextIO,
    encoder: TextEncoder,
    *,
    prompt: str,
    form: Form | None = None,
    precision: PrecisionName = "float32",
    window: int = 1_024,
    say: Say | None = None,
) -> EncodedFile:
    """Writes each text with its vector to ``out``, one JSON object per line, ``window`` texts at a time.

    Raises:
        UserError: for a fault in the text, or a vector that is not finite.
    """
    form, say = form or Form(), say or _silent
    form.require(encoder.dimension)
    rows, started = 0, time.perf_counter()
    for records in _windows(source, 0, window):
        if not rows:
            warn_of_unknown_tokens(encoder, [texts[0] for _, texts in records], say)
        try:
            written = written_vectors(encoder, [texts[0] for _, texts in records], prompt, form, precision)
        except DamagedVectorError as error:
            raise fault(source, records[error.row][0].number, error) from None
        for (_, texts), vector in zip(records, written.tolist(), strict=True):
            out.write(json.dumps({"text": texts[0], "vector": vector}, ensure_ascii=False) + "\n")
        out.flush()
        rows += len(records)
    return EncodedFile(rows, form.kept_dimensions(encoder.dimension), 0, time.perf_counter() - started)


def _checked_target(out: Path) -> Path:
    """The file behind ``out``; a ``UserError`` if it could not be written."""
    if out.suffix != SUFFIX:
        raise UserError(f"{out}: vectors are written as {SUFFIX} files; give --out a name that ends in {SUFFIX}")
    try:
        target = out.resolve()
        if target.is_dir():
            raise UserError(f"{out}: is a folder; give --out a file")
        if not target.parent.is_dir():
            raise UserError(f"{out}: there is no folder {out.parent}; make it, or choose another --out")
        if not os.access(target.parent, os.W_OK | os.X_OK) or (target.exists() and not os.access(target, os.W_OK)):
            raise UserError(f"{out}: may not be written; choose another --out")
        # the longest name that is needed next to it
        record_path(target).with_name(f"{WRITING}{os.getpid()}-{record_path(target).name}").exists()
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(f"{out}: cannot be written ({reason(error)})") from None
    return target


def _require_own(target: Path) -> None:
    """Refuses to overwrite files with the names of the partial file and its record that no earlier call made."""
    partial, state = partial_path(target), record_path(target)
    with suppress(OSError, ValueError):
        if has_keys(json.loads(state.read_text(encoding="utf-8")), ["identity", "done"]):
            return
    first = None
    with suppress(FileNotFoundError), partial.open("rb") as stream:
        first = stream.read(len(_NPY))
    if first not in (None, b"", _NPY) or (first is None and state.exists()):
        name = state if first is None else partial
        raise UserError(f"{name}: exists and is not of opencse encode; move it, or choose another --out")


def _windows(source: FileTexts, before: int, window: int) -> Iterator[list[tuple[RawRow, tuple[str, ...]]]]:
    examples = islice(source.examples(), before, None)
    while records := list(islice(examples, window)):
        yield records


def _counted_from(before: int, rows: int, progress: Count) -> Count:
    """``progress`` of the whole text, for the counts of one window."""
    return lambda done, _: progress(before + done, rows)


def _silent(line: str) -> None:
    """Ignores a line."""
