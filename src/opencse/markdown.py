"""Names in Markdown: what a user or a file is called stays text, whatever characters it is made of."""

from __future__ import annotations

import re

from opencse.errors import printable

# A character entity is text to Markdown and to the HTML made of it, in a table as in a paragraph.
_MARKUP = re.compile(r"[|`*$\\]|<(?=[a-zA-Z/!?])|\](?=[(\[:])|&(?=#|\w+;)")


def as_text(name: object) -> str:
    """``name`` in one line that Markdown shows as it is: no heading, link, code, table cell or HTML begins in it."""
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", printable(str(name)))
