"""Vectors of a text of any length, written to a file as they are made, and gone on with after a kill.

Beside the target stand, until it is whole, ``NAME.partial`` (the file as far as it is made) and
``NAME.partial.json`` (of what, and its checksum). The target itself is replaced at the end, in one step.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from opencse.bulk.forms import Form, first_wrong
from opencse.encoder.batches import require_options
from opencse.encoder.damage import DamagedVectorError
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.encoding import WINDOW
from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.known import tell_unknown
from opencse.errors import UserError, reason
from opencse.foreign import told
from opencse.io import WRITING, lock, npy_header, sync, write_text
from opencse.modules.prompts import Role
from opencse.outputs import has_keys
from opencse.progress import Count, Say
from opencse.text.formats import Record
from opencse.text.given import FileTexts

Precision = Literal["float32", "bf16"]
SUFFIX = ".npy"
_BLOCK = 1 << 20
_NPY = b"\x93NUMPY"


@dataclass(frozen=True)
class EncodedFile:
    """What was written.

    Attributes:
        rows: vectors in the file, or in all files of the folder.
        dimension: of each.
        before: of the rows, those that an earlier, broken off call had made.
        seconds: spent on the others.
        files: that they are in.
    """

    rows: int
    dimension: int
    before: int
    seconds: float
    files: int = 1


def encode_file(
    source: FileTexts,
    out: str | Path,
    model: str | Path | SentenceEncoder,
    *,
    form: Form | None = None,
    prompt_name: str | None = None,
    prompt: str | None = None,
    precision: Precision = "float32",
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    window: int = WINDOW,
    progress: Count | None = None,
    say: Say | None = None,
) -> EncodedFile:
    """Writes the vectors of ``source`` (its first column) to ``out``: (rows, width) as ``form`` says, in ``.npy``.

    The text is read three times, first to count and check it; at most ``window`` texts and their vectors are in memory.
    Broken off (a kill, Ctrl-C, a full disk), the same call goes on after the last whole window, and the file is the
    same to the bit as that of an unbroken call. What ``out`` held stays until the new file is whole.

    Args:
        source: texts.
        out: the file; its folder must be there.
        model: what `SentenceEncoder.load` takes, or an encoder.
        form: numbers, dimensions, normalising; by default float32, all, as they are.
        prompt_name: name of the model's prompt that is put before each text; see `SentenceEncoder.encode`.
        prompt: text that is put before each text instead.
        precision: see `SentenceEncoder.encode`.
        pooling: replaces the model's own (not with an encoder).
        device: where to put the model (not with an encoder).
        trust_remote_code: see `SentenceEncoder.load` (not with an encoder).
        window: texts that are encoded, written and made sure of together.
        progress: called with (texts done, texts in all).
        say: hears whether an earlier call is gone on with, or why not.

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
    encoder = ready(model, form, say, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    prompt = encoder.prompts.chosen(Role.PLAIN, prompt_name, prompt)
    identity = {"version": 2, **identity_of(text, rows, encoder, prompt, form, precision), "window": window}
    try:
        with _Partial.open(target, identity, form, say) as partial:
            before, started = partial.done, time.perf_counter()
            for records in _windows(source, before, window):
                first = [texts[0] for _, texts in records]
                if partial.done == before:
                    tell_unknown(encoder, first, say)
                counting = None if progress is None else partial.counting(progress)
                try:
                    written = written_vectors(encoder, first, prompt, form, precision, counting)
                except DamagedVectorError as error:
                    partial.discard()
                    raise fault(source, records[error.row][0].number, error) from None
                partial.add(written)
            if partial.done != rows:
                partial.discard()
                raise UserError(f"{source.name}: changed while it was read ({rows:,} texts, then {partial.done:,})")
            partial.finish()
            return EncodedFile(rows, form.kept(encoder.dimension), before, time.perf_counter() - started)
    except OSError as error:
        kept = _partial_of(target)
        goes_on = f"; what is made is in {kept.name}, and the same command goes on" if kept.exists() else ""
        raise UserError(f"{out}: cannot be written ({reason(error)}){goes_on}") from None


def ready(
    model: str | Path | SentenceEncoder,
    form: Form,
    say: Say,
    *,
    pooling: str | None,
    device: str | None,
    trust_remote_code: bool,
) -> SentenceEncoder:
    """The encoder of a text, loaded if it is not one yet; code of its own is told of, and ``form`` has to fit it."""
    if isinstance(model, SentenceEncoder):
        encoder = model
    else:
        encoder = SentenceEncoder.load(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
        if encoder.own_code:
            say(told(encoder.own_code))
    form.require(encoder.dimension)
    return encoder


def identity_of(
    text: str, rows: int, encoder: SentenceEncoder, prompt: str, form: Form, precision: Precision
) -> dict[str, Any]:
    """What vectors are of and how they are made: a call that goes on with those of another has to be the same."""
    return {
        "text": text,
        "rows": rows,
        "model": fingerprint(encoder),
        "prompt": prompt or None,
        "dimension": form.kept(encoder.dimension),
        "numbers": form.numbers,
        "normalize": form.normalize,
        "precision": precision,
        "device": encoder.device.type,
    }


def written_vectors(
    encoder: SentenceEncoder,
    texts: Sequence[str],
    prompt: str,
    form: Form,
    precision: Precision,
    progress: Count | None = None,
) -> NDArray[Any]:
    """(n, width): the vectors of ``texts``, each with ``prompt`` before it, as ``form`` writes them.

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
    """Of a text whose vector is not finite."""
    return UserError(f"{source.name}, {source.unit} {line}: {error}")


def write_lines(
    source: FileTexts,
    out: TextIO,
    encoder: SentenceEncoder,
    *,
    prompt: str,
    form: Form | None = None,
    precision: Precision = "float32",
    window: int = 1_024,
    say: Say | None = None,
) -> EncodedFile:
    """Writes each text with its vector to ``out``, a JSON object a line, some at a time as they are made.

    Raises:
        UserError: for a fault in the text, or a vector that is not finite.
    """
    form, say = form or Form(), say or _silent
    form.require(encoder.dimension)
    rows, started = 0, time.perf_counter()
    for records in _windows(source, 0, window):
        if not rows:
            tell_unknown(encoder, [texts[0] for _, texts in records], say)
        try:
            written = written_vectors(encoder, [texts[0] for _, texts in records], prompt, form, precision)
        except DamagedVectorError as error:
            raise fault(source, records[error.row][0].number, error) from None
        for (_, texts), vector in zip(records, written.tolist(), strict=True):
            out.write(json.dumps({"text": texts[0], "vector": vector}, ensure_ascii=False) + "\n")
        out.flush()
        rows += len(records)
    return EncodedFile(rows, form.kept(encoder.dimension), 0, time.perf_counter() - started)


class _Partial:
    """The unfinished file: header, then rows; every whole window is on the disk before the state names it."""

    def __init__(self, target: Path, identity: dict[str, Any], form: Form, stream: BinaryIO) -> None:
        self._target, self._identity, self._stream = target, identity, stream
        self._type, self._shape = form.stored, (int(identity["rows"]), form.width(int(identity["dimension"])))
        self._hash, self.done = hashlib.sha256(), 0

    @classmethod
    @contextmanager
    def open(cls, target: Path, identity: dict[str, Any], form: Form, say: Say) -> Iterator[_Partial]:
        """What an earlier call made of the same, or a new file; locked against a second process."""
        path = _partial_of(target)
        with path.open("r+b" if path.exists() else "x+b", buffering=0) as stream:
            _lock(stream, path)
            _remove_leftovers(_state_of(target))
            partial = cls(target, identity, form, stream)
            why = partial._resume()
            if why is None:
                say(f"{path.name}: going on after {partial.done:,} of {identity['rows']:,} texts")
            else:
                if path.stat().st_size:
                    say(f"{path.name}: {why}; it begins anew")
                partial.done = 0
            try:
                if why is not None:
                    partial._begin()
                yield partial
            except BaseException:
                if partial.done == 0:
                    partial.discard()
                raise

    def counting(self, progress: Count) -> Count:
        """``progress`` of the whole, for a window's own."""
        done, rows = self.done, self._identity["rows"]
        return lambda here, _: progress(done + here, rows)

    def add(self, vectors: NDArray[Any]) -> None:
        """Appends a window of rows, and makes sure of it."""
        self._write(np.ascontiguousarray(vectors, dtype=self._type).tobytes())
        self.done += len(vectors)
        self._make_sure()

    def finish(self) -> None:
        """The target is this file from now on."""
        if os.name == "nt":  # where an open file cannot be renamed
            self._stream.close()
        _partial_of(self._target).replace(self._target)
        _state_of(self._target).unlink(missing_ok=True)
        sync(self._target.parent)

    def discard(self) -> None:
        """Removes what is made; nothing could go on with it."""
        if os.name == "nt":
            self._stream.close()
        _state_of(self._target).unlink(missing_ok=True)
        _partial_of(self._target).unlink(missing_ok=True)

    def _begin(self) -> None:
        self._stream.truncate(0)
        self._stream.seek(0)
        self._hash = hashlib.sha256()
        needed, free = self._row * self._shape[0], shutil.disk_usage(self._target.parent).free
        if needed > free:
            raise OSError(f"it needs {needed / 1e9:,.3f} GB, and {free / 1e9:,.3f} GB are free; make room")
        self._write(self._header)
        self._make_sure()

    def _resume(self) -> str | None:
        """Goes to the end of what is whole; or the reason why nothing can be gone on with."""
        try:
            state = json.loads(_state_of(self._target).read_text(encoding="utf-8"))
            before, done, checksum = dict(state["identity"]), int(state["done"]), str(state["sha256"])
        except (OSError, ValueError, TypeError, KeyError):
            return f"its record {_state_of(self._target).name} is missing or damaged"
        for key, value in self._identity.items():
            if before.get(key) != value:
                return f"was begun with another {key}"
        left = len(self._header) + done * self._row
        while block := self._stream.read(min(_BLOCK, left)):
            self._hash.update(block)
            left -= len(block)
        if left or self._hash.hexdigest() != checksum:
            return "is damaged (its checksum is another)"
        self._stream.truncate(self._stream.tell())
        self.done = done
        return None

    @property
    def _row(self) -> int:
        """Bytes of a row."""
        return self._shape[1] * self._type.itemsize

    @property
    def _header(self) -> bytes:
        return npy_header(self._type, self._shape)

    def _write(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[self._stream.write(view) :]
        self._hash.update(content)

    def _make_sure(self) -> None:
        os.fsync(self._stream.fileno())
        state = {"identity": self._identity, "done": self.done, "sha256": self._hash.hexdigest()}
        write_text(_state_of(self._target), json.dumps(state, indent=1) + "\n")


def _checked_target(out: Path) -> Path:
    """The file behind ``out``; a ``UserError`` if it could not be written."""
    if out.suffix != SUFFIX:
        raise UserError(f"{out}: vectors are written as {SUFFIX}; name the file so")
    try:
        target = out.resolve()
        if target.is_dir():
            raise UserError(f"{out}: is a folder; name a file")
        if not target.parent.is_dir():
            raise UserError(f"{out}: there is no folder {out.parent}; make it, or choose another --out")
        if not os.access(target.parent, os.W_OK | os.X_OK) or (target.exists() and not os.access(target, os.W_OK)):
            raise UserError(f"{out}: may not be written; choose another --out")
        # the longest name that is needed beside it
        _state_of(target).with_name(f"{WRITING}{os.getpid()}-{_state_of(target).name}").exists()
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(f"{out}: cannot be written ({reason(error)})") from None
    return target


def _require_own(target: Path) -> None:
    """Refuses to write over files of those names that no earlier call began."""
    partial, state = _partial_of(target), _state_of(target)
    with suppress(OSError, ValueError):
        if has_keys(json.loads(state.read_text(encoding="utf-8")), ["identity", "done"]):
            return
    first = None
    with suppress(FileNotFoundError), partial.open("rb") as stream:
        first = stream.read(len(_NPY))
    if first not in (None, b"", _NPY) or (first is None and state.exists()):
        name = state if first is None else partial
        raise UserError(f"{name}: exists and is not of opencse encode; move it, or choose another --out")


def _partial_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.partial")


def _state_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.partial.json")


def _lock(stream: BinaryIO, path: Path) -> None:
    """Keeps a second process from the file."""
    try:
        lock(stream.fileno())
        free = os.path.samestat(os.fstat(stream.fileno()), path.stat())  # else it was finished just now
    except OSError:
        free = False
    if not free:
        raise UserError(f"{path}: another process is writing it; wait for it, or choose another --out")


def _remove_leftovers(state: Path) -> None:
    """Removes records that a killed process was writing."""
    for path in state.parent.iterdir():
        if path.name.startswith(WRITING) and path.name.endswith(f"-{state.name}"):
            path.unlink(missing_ok=True)


def _windows(source: FileTexts, before: int, window: int) -> Iterator[list[tuple[Record, tuple[str, ...]]]]:
    examples = islice(source.examples(), before, None)
    while records := list(islice(examples, window)):
        yield records


def _silent(line: str) -> None:
    """Says nothing."""
