"""Reads subtitles (SubRip, WebVTT): the spoken text, without numbers, times and tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

from opencse.errors import UserError
from opencse.text.files.lines import File, read_lines
from opencse.text.files.paragraphs import Section

_TIME = r"(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}"
_CUE = re.compile(rf"\s*({_TIME})\s+-->\s+({_TIME})")
_TAG = re.compile(r"<[^<>]*>|\{\\[^{}]*\}|\{[^{}\s]{0,3}:[^{}]*\}")
_SOUND = re.compile(r"[\[(♪♫#][^\])]*[\])♪♫#]|[♪♫]+")
_DASH = re.compile(r"\s*[-–—]\s+")
_PAUSE = 4.0
"""Seconds without speech after which a new paragraph begins."""


def subtitle_sections(file: File, name: str) -> Iterator[Section]:
    """Reads the spoken text as one document; lines and cues are joined, a pause of four seconds begins a paragraph.

    Cues that repeat the one before (rolling captions) count once; sounds in brackets and notes are left out.

    Raises:
        UserError: for a file without any time line.
    """
    paragraphs: list[list[str]] = []
    last_end, spoken, before = 0.0, False, ""
    cues = 0
    for _, line in read_lines(file, records=True):
        if match := _CUE.match(line):
            start, last, last_end = _seconds(match[1]), last_end, _seconds(match[2])
            if not paragraphs or start - last >= _PAUSE:
                paragraphs.append([])
            spoken, cues = True, cues + 1
        elif not line.strip():
            spoken = False
        elif spoken:
            text = " ".join(unescape(_TAG.sub("", line)).split())
            text = _DASH.sub("", text, count=1) if _DASH.match(text) else text
            if not _SOUND.fullmatch(text) and text != before:
                paragraphs[-1].append(text)
            before = text
    if not cues:
        raise UserError(f"{file}: no line such as 00:00:01,000 --> 00:00:02,000 in it, so these are no subtitles")
    texts = tuple(" ".join(filter(None, lines)) for lines in paragraphs)
    if any(texts):
        yield Section(name, "", tuple(text for text in texts if text))


def _seconds(time: str) -> float:
    hours_and_minutes, _, seconds = time.replace(",", ".").rpartition(":")
    minutes = 0
    for part in hours_and_minutes.split(":"):
        minutes = 60 * minutes + int(part)
    return 60 * minutes + float(seconds)
