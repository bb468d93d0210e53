"""Reads the questions in what a language model answered, however it is written."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

from opencse.text.scripts import is_unicode

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[ \t]*+[\w+-]*+[ \t]*+\n(.*?)(?:```|\Z)", re.DOTALL)
_BEGINS_JSON = re.compile(r"(?m)^[ \t]*(?:\w+[ \t]*[=:][ \t]*)?(?=[\[{])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+("?)', re.DOTALL)
_COLON = re.compile(r"\s*:")
_LISTED = re.compile(
    r"^(?:[-*+•‣–—]\s+|#+\s+"
    r"|\**[(\[]?\d{1,3}[.):\]]+(?!\d)\**\s*"
    r"|\**[(\[]?(?:q|question|query|frage|pregunta)\s*#?\d{0,3}\s*[.:)\]]+\**\s*)+",
    re.IGNORECASE,
)
_QUOTES = (
    ('"', '"'),
    ("'", "'"),
    ("“", "”"),
    ("„", "“"),
    ("«", "»"),
    ("‘", "’"),
    ("「", "」"),
    ("`", "`"),
    ("**", "**"),
)
_INTRODUCTION = re.compile(
    r"^(?:here (?:are|is)|sure\b|certainly\b|of course\b|okay\b|these are|below are|the following|i hope|let me know)",
    re.IGNORECASE,
)
_LONGEST = 65_536
"""Characters of an answer, without its reasoning, that are read."""
_MOST_FAILURES = 20
"""Lines that begin as JSON and are none; each of them is read to the end of the answer."""
_KEYS = ("question", "query", "text", "q")


def read_questions(answer: str, *, finished: bool = True) -> list[str]:
    r"""The questions in an answer: a JSON array, objects, a list in Python's notation, or one question per line.

    Reasoning in ``<think>`` tags, code fences, numbering, bullets, quotes and introductions are removed.

    Example:
        >>> read_questions('Sure! Here are two:\n```json\n["How is it cleaned?", "What removes limescale?"]\n```')
        ['How is it cleaned?', 'What removes limescale?']
        >>> read_questions("1. How is it cleaned?\n2) **What removes limescale?**")
        ['How is it cleaned?', 'What removes limescale?']

    Args:
        answer: what the language model wrote.
        finished: False where it was stopped at its longest length: then the last question may be a part and is dropped.

    Returns:
        Questions, each in one line; none where there are none.
    """
    text = _THOUGHT.sub("", answer)
    text = _THOUGHT_END.sub("", text).strip()
    text, finished = text[:_LONGEST], finished and len(text) <= _LONGEST
    fenced = _FENCE.search(text)
    text = (fenced[1] if fenced else text).strip()
    texts = _of_json(text)
    if not texts:
        is_open = text[:1] in ("[", "{") and not _LISTED.match(text)  # [1] only numbers a line
        texts = _of_open_json(text) if is_open else _of_lines(text, finished)
    cleaned = [_clean(one) for one in texts if is_unicode(one)]
    return [one for one in cleaned if re.search(r"\w", one)]


def _of_json(text: str) -> list[str]:
    """The texts of the JSON values that begin a line; of several (JSON lines), of all."""
    texts: list[str] = []
    end = failures = 0
    decoder = json.JSONDecoder(strict=False)
    for match in _BEGINS_JSON.finditer(text):
        if match.end() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            failures += 1
            if failures > _MOST_FAILURES:
                break
            close = text.rfind("]" if text[match.end()] == "[" else "}") + 1
            try:
                value = ast.literal_eval(text[match.end() : close])
            except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
                continue
            end = close
        texts += _texts_in(value)
    return texts


def _texts_in(value: object) -> Iterator[str]:
    """The questions in a value read from JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts_in(one)
    elif isinstance(value, dict):
        keyed = next((value[key] for key in _KEYS if isinstance(value.get(key), str)), None)
        if keyed is not None:
            yield keyed
        else:
            for one in value.values():
                yield from _texts_in(one)


def _of_open_json(text: str) -> list[str]:
    """The complete strings of an array that is not closed, or not valid; keys of objects are none."""
    strings: list[str] = []
    for match in _STRING.finditer(text):
        if match[1] and not _COLON.match(text, match.end()):
            try:
                strings.append(str(json.loads(match[0], strict=False)))
            except ValueError:
                continue
    return strings


def _of_lines(text: str, finished: bool) -> list[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not finished:
        lines = lines[:-1]
    if len(lines) > 1:
        lines = [line for line in lines if not line.endswith((":", "：")) and not _INTRODUCTION.match(line)]
    listed = [line for line in lines if _LISTED.match(line)]
    return listed if len(listed) > 1 else lines  # of a list, only its items


def _clean(text: str) -> str:
    """One question in one line, without what only marks it."""
    text = " ".join(text.split())
    before = None
    while text != before:
        before = text
        text = _LISTED.sub("", text).strip().rstrip(",").strip()
        for first, last in _QUOTES:
            inner = text[len(first) : -len(last)]
            if (
                len(text) > len(first) + len(last)
                and text.startswith(first)
                and text.endswith(last)
                and first not in inner
            ):
                text = inner.strip()
    return text
