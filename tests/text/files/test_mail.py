"""E-mail."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.search.row_sources import open_rows
from opencse.text.documents import Collection
from opencse.text.files import mail
from opencse.text.files.mail import mail_sections, mailbox_sections
from opencse.text.reading_notes import ReadingNotes

HEAD = "From: A <a@b.c>\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\nMessage-ID: <1@b.c>\n"


def message(tmp_path: Path, content: str | bytes) -> tuple[str, str, tuple[str, ...]]:
    path = tmp_path / "a.eml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    (section,) = mail_sections(path, "a.eml")
    return section.name, section.title, section.paragraphs


@pytest.mark.parametrize(
    ("body", "paragraphs"),
    [
        ("\nOne text.\n\nTwo.\n", ("One text.", "Two.")),
        ("\nYes.\n\nOn Monday, B <b@b.c> wrote:\n> a question\n>> older\n\n-- \nA. Person\nA street\n", ("Yes.",)),
        ("\nYes.\n\nOn Monday the second of May,\nB <b@b.c> wrote:\n> a question\n\nNo.\n", ("Yes.", "No.")),
        ("\nJa.\n\nAm 3. Mai schrieb B:\n> Frage\n", ("Ja.",)),
        ("\nYes.\n\n-----Original Message-----\nFrom: B\nold text\n", ("Yes.",)),
        ("Content-Type: text/html; charset=utf-8\n\n<p>One <b>text</b>.</p><style>p{}</style>\n", ("One text.",)),
        ("Content-Transfer-Encoding: base64\nContent-Type: text/plain; charset=utf-8\n\nR3LDvMOfZQ==\n", ("Grüße",)),
        ("Content-Type: text/plain; charset=x-unknown\n\nOne text.\n", ("One text.",)),
        (
            'Content-Type: multipart/mixed; boundary="x"\n\n--x\nContent-Type: multipart/alternative; boundary="y"\n\n'
            "--y\nContent-Type: text/plain\n\nThe text.\n--y\nContent-Type: text/html\n\n<p>The text.</p>\n--y--\n"
            "--x\nContent-Disposition: attachment; filename=a.txt\nContent-Type: text/plain\n\nNot this.\n--x--\n",
            ("The text.",),
        ),
    ],
)
def test_what_the_sender_wrote(tmp_path: Path, body: str, paragraphs: tuple[str, ...]) -> None:
    assert message(tmp_path, HEAD + body) == ("1@b.c", "Grüße", paragraphs)


def test_undeclared_letters(tmp_path: Path) -> None:
    content = (
        b"From: a@b.c\nSubject: Gr\xfc\xdfe\nContent-Type: text/plain; charset=us-ascii\n\nDie Z\xfcndung l\xe4uft.\n"
    )
    assert message(tmp_path, content)[2] == ("Die Zündung läuft.",)


def test_messages_of_a_mailbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.mbox"
    begin = "From a@b.c Mon Jan  1 00:00:00 2024\n"
    path.write_text(f"{begin}Subject: One\n\nText one.\nFrom here on it goes.\n\n{begin}Subject: Two\n\nText two.\n")
    assert [(one.name, one.title, one.paragraphs) for one in mailbox_sections(path, "a.mbox")] == [
        ("a.mbox#1", "One", ("Text one.", "From here on it goes.")),
        ("a.mbox#2", "Two", ("Text two.",)),
    ]
    path.write_text("No mailbox.\n")
    with pytest.raises(UserError, match=r"a\.mbox, line 1: a mailbox begins with a line 'From ADDRESS DATE'"):
        list(mailbox_sections(path, "a.mbox"))
    monkeypatch.setattr(mail, "MAX_MESSAGE", 100)
    path.write_text(f"{begin}Subject: One\n\n" + "Text.\n" * 100)
    with pytest.raises(UserError, match=r"a\.mbox, line 1: a message of more than 100 bytes"):
        list(mailbox_sections(path, "a.mbox"))


def test_copies_of_a_message_are_left_out_and_counted(tmp_path: Path) -> None:
    """A mailbox and its copies, or a message in two folders, hold one message several times."""
    begin, head = "From a@b.c Mon Jan  1 00:00:00 2024\n", "Message-ID: <1@b.c>\nSubject: Tea\n\n"
    (tmp_path / "a.mbox").write_text(f"{begin}{head}At four.\n\n{begin}{head}At five.\n\n{begin}{head}At four.\n")
    (tmp_path / "b.eml").write_text(f"From: a@b.c\n{head}At four.\n")
    notes = ReadingNotes()
    texts = [(one.name, one.text) for one in Collection(str(tmp_path)).titled_texts(notes)]
    assert texts == [("1@b.c", "At four."), ("1@b.c-1", "At five.")]
    assert notes.lines()[-1] == "left out   2 messages read before (the same Message-ID and text)"
    assert [document.name for document in Collection(str(tmp_path)).documents()] == ["1@b.c", "1@b.c-1"]
    assert open_rows(tmp_path).count == 2
