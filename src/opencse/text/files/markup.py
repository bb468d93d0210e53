"""Converts HTML to text without tags, scripts and navigation; code blocks are left out or kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

from opencse.text.files.prose import Headed, Section, split_front_matter

_LEFT_OUT = frozenset(
    ("title", "script", "style", "template", "noscript", "svg", "math", "nav", "footer", "aside", "form", "button",
     "select", "iframe", "object", "canvas", "head")
)  # fmt: skip
_LANDMARK = re.compile(r"""\srole\s*=\s*["']?(?:complementary|contentinfo|form|navigation|search)\b""", re.IGNORECASE)
"""The roles of elements that are a page's footer, navigation, ... whatever they are called."""
_CODE = frozenset(("pre", "listing", "xmp"))
_BLOCKS = frozenset(
    ("address", "article", "aside", "blockquote", "body", "br", "center", "dd", "details", "dialog", "div", "dl", "dt",
     "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html", "legend", "li", "main", "nav", "ol",
     "p", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul")
)  # fmt: skip
_SECTIONING = frozenset(("article", "main", "section"))
"""Elements whose header is part of the text; another one is the page's, of which the headings alone are read."""
_VOID = frozenset(("br", "hr", "img", "input"))
_CELLS = frozenset(("td", "th"))
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_RAW = frozenset(("script", "style"))
_MARKUP = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))|<!\[CDATA\[.*?(?:\]\]>|\Z)|<!doctype(?:[^>\[]++|\[[^\]]*+)*+(?:>|\Z)|<[!?][^>]*+(?:>|\Z)"
    r"|<(?P<end>/?)(?P<name>[a-z][^\s/>]*+)"
    r"""(?:(?:[^<>=]++|=\s*+"[^"]*+"|=\s*+'[^']*+'|=)*+>|[^>]*+(?:>|\Z))""",
    flags=re.DOTALL | re.IGNORECASE,
)
"""A comment, a declaration or a tag. Each character is looked at a few times only, whatever is not closed."""
_DEEPEST = 100


class _Reader:
    """Collects the sections of a page."""

    def __init__(self, output: Headed | _Lines, *, keep_code: bool) -> None:
        self._output = output
        self._keep_code = keep_code
        self._text: list[str] = []
        self._left_out: list[str] = []
        self._code = 0
        self._heading = ""
        self._sectioning = 0
        self._header: list[str] | None = None  # paragraphs of the page's header, as long as it is open

    def read(self, source: str) -> None:
        """Reads a page; a comment, script or style that is not closed goes to its end, as in browsers."""
        at = 0
        while match := _MARKUP.search(source, at):
            self._data(source[at : match.start()])
            at = match.end()
            tag = (match["name"] or "").lower()
            if tag and not match[0].endswith(">"):
                self._data(match[0])
            elif match["end"]:
                self._end_tag(tag)
            elif match[0].endswith("/>"):
                if tag in _BLOCKS and not self._left_out:
                    self._break()
            elif tag:
                self._start_tag(tag, _LANDMARK.search(match[0]) is not None)
                if tag in _RAW:
                    end = re.compile(f"</{tag}", re.IGNORECASE).search(source, at)
                    at = end.start() if end else len(source)
        self._data(source[at:])
        self._end()
        for paragraph in self._header or ():  # the page's header never ends, so it may be the page
            self._output.paragraph(paragraph)

    def _start_tag(self, tag: str, is_landmark: bool) -> None:
        if tag == "body":  # a head may lack its end
            self._left_out.clear()
        if tag in _LEFT_OUT or tag in self._left_out or (is_landmark and tag not in _VOID):
            if is_landmark and tag in _BLOCKS and not self._left_out:
                self._break()
            self._left_out += [tag] * (len(self._left_out) < _DEEPEST)
        elif self._left_out:
            return
        elif tag == "header" and not self._sectioning:
            self._break()
            self._header = []
        elif tag in _CODE:
            self._end()
            self._code += 1
        elif tag in _HEADINGS:
            self._end()
            self._heading = tag
        elif tag in _BLOCKS:
            self._sectioning += tag in _SECTIONING
            self._break()
        elif tag in _CELLS and self._text:
            self._text.append(", ")

    def _end_tag(self, tag: str) -> None:
        if tag in self._left_out:
            while self._left_out.pop() != tag:
                pass
        elif self._left_out:
            return
        elif tag == "a" and self._text and self._text[-1].strip() in ("¶", "#", "§"):
            self._text.pop()  # the sign that links to a heading
        elif tag in _CODE and self._code:
            if self._keep_code:
                self._output.paragraph("".join(self._text).strip("\n"))
            self._text.clear()
            self._code -= 1
        elif tag in _HEADINGS and self._heading:
            self._output.heading("".join(self._text))
            self._text.clear()
            self._heading = ""
        elif tag in _BLOCKS:
            self._sectioning = max(0, self._sectioning - (tag in _SECTIONING))
            self._break()
            if tag == "header":
                self._header = None

    def _data(self, data: str) -> None:
        if not self._left_out and data and (self._text or not data.isspace()):
            self._text.append(unescape(data))

    def _break(self) -> None:
        """Ends a paragraph; within a heading or code, a line."""
        if self._heading or self._code:
            self._text.append("\n" if self._code else " ")
        else:
            self._end()

    def _end(self) -> None:
        if self._code and not self._keep_code:
            self._text.clear()
        text = " ".join("".join(self._text).split())
        self._text.clear()
        if self._header is None:
            self._output.paragraph(text)
        else:
            self._header.append(text)


def html_sections(source: str, name: str, *, keep_code: bool = False) -> Iterator[Section]:
    """Reads the sections of a web page, by its headings; only its ``main`` or ``article``, if it has one.

    The title is the page's ``<title>``, or its first heading where the ``<title>`` begins with it (followed by the
    name of the site).
    """
    front_title, text = split_front_matter(source)
    title = " ".join((front_title or _title_of(text)).split())
    page = Headed(title)
    _Reader(page, keep_code=keep_code).read(_main_part(text))
    yield from page.sections(name)


def _main_part(text: str) -> str:
    """The first ``main`` or ``article`` to the last end of one, or the whole page."""
    parts = []
    for name in ("main", "article"):
        start = re.search(rf"<{name}\b", text, flags=re.IGNORECASE)
        ends = [match.end() for match in re.finditer(rf"</{name}\s*>", text, flags=re.IGNORECASE)]
        if start and ends and start.start() < ends[-1]:
            parts.append((start.start(), ends[-1]))
    start_at, end = min(parts, default=(0, len(text)))
    return text[start_at:end]


def _element(name: str, text: str) -> re.Match[str] | None:
    """The first element of that name that is closed; its content is group 1."""
    return re.search(rf"<{name}\b[^<>]*+>((?:(?!</?{name}).)*+)</{name}", text, flags=re.DOTALL | re.IGNORECASE)


def _title_of(text: str) -> str:
    head = _element("title", text[:200_000])
    if head is None:
        return ""
    title = text_of_html(head[1])
    heading = _element("h1", text)
    if heading is not None:
        first_heading = " ".join(text_of_html(heading[1]).split())
        rest = title[len(first_heading) :].strip()
        if first_heading and title.casefold().startswith(first_heading.casefold()) and re.match(r"[-–—|·:»]", rest):
            return first_heading
    return title


def text_of_html(source: str, *, keep_code: bool = False) -> str:
    r"""Converts a piece of HTML to text, one line per paragraph.

    Example:
        >>> text_of_html("<p>One &amp; <b>two</b>.</p><pre>x = 1</pre><p>Three.</p>")
        'One & two.\nThree.'
    """
    lines = _Lines()
    _Reader(lines, keep_code=keep_code).read(source)
    return "\n".join(lines.texts)


class _Lines:
    """Collects headings and paragraphs as plain lines, with the methods of `Headed`."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def heading(self, text: str) -> None:
        """Adds a heading."""
        self.paragraph(" ".join(text.split()))

    def paragraph(self, text: str) -> None:
        """Adds a paragraph, if it holds any text."""
        if text := text.strip():
            self.texts.append(text)
