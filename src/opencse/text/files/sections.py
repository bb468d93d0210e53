"""Reads files of prose of every kind as sections: title and paragraphs."""

from __future__ import annotations

from collections.abc import Iterator

from opencse.text.files.kinds import FileKind
from opencse.text.files.lines import File, path_of, read_lines, read_text
from opencse.text.files.paragraphs import Section, join_lines
from opencse.text.files.pipes import Spooled


def read_sections(file: File, kind: FileKind, *, name: str | None = None, keep_code: bool = False) -> Iterator[Section]:
    r"""Reads the sections of one file, by the reader of its kind.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "a.md"
        >>> _ = path.write_text("# Valves\n\nClose it slowly.\n")
        >>> [(section.name, section.title, section.paragraphs) for section in read_sections(path, FileKind("markdown"))]
        [('a.md#valves', 'Valves', ('Close it slowly.',))]

    Args:
        file: of a kind in `opencse.text.files.kinds.SECTIONED`, or lines of text.
        kind: what it was recognised as.
        name: used in the names of sections; by default the name of the file.
        keep_code: keep code blocks.

    Raises:
        UserError: naming the file, the line or page, and the fix.
    """
    if name is None:
        name = file.name if isinstance(file, Spooled) else path_of(file).name
    match kind.name:
        case "text":
            if paragraphs := tuple(join_lines(line for _, line in read_lines(file))):
                yield Section(name, "", paragraphs)
        case "markdown":
            from opencse.text.files.prose import markdown_sections

            yield from markdown_sections(read_text(file) + "\n", name, keep_code=keep_code)
        case "rst":
            from opencse.text.files.prose import rst_sections

            yield from rst_sections(read_text(file), name, keep_code=keep_code)
        case "html":
            from opencse.text.files.markup import html_sections

            yield from html_sections(read_text(file), name, keep_code=keep_code)
        case "subtitles":
            from opencse.text.files.subtitles import subtitle_sections

            yield from subtitle_sections(file, name)
        case "mail":
            from opencse.text.files.mail import mail_sections

            yield from mail_sections(file, name)
        case "mbox":
            from opencse.text.files.mail import mailbox_sections

            yield from mailbox_sections(file, name)
        case "pages":
            from opencse.text.files.pages import page_sections

            yield from page_sections(read_text(file).split("\f"), name)
        case "pdf":
            from opencse.text.files.pdf import pdf_sections

            yield from pdf_sections(file, name)
        case "docx" | "epub":
            from opencse.text.files.office import docx_sections, epub_sections

            yield from (docx_sections if kind.name == "docx" else epub_sections)(file, name, keep_code=keep_code)
        case "wikipedia":
            from opencse.text.files.xml_files import wikipedia_sections

            yield from wikipedia_sections(file)
        case _:
            raise ValueError(f"{kind.name} files have no sections")
