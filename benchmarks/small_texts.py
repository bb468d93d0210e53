"""The texts that opencse-small learns from: Wikipedia's and those of software's documentation, in the forms people use.

    python benchmarks/small_texts.py OUT --wiki ordered.txt.xz [--packages FOLDER]

Sentences, passages of two to eight sentences, stretches of words, keywords, questions about titles and headings. The
documentation is that of Debian packages, which apt-get downloads unless FOLDER has them already; no package of
`queries/` is among them. OUT/texts.txt has one text a line, in random order.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import html
import lzma
import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

PACKAGES = """
akregator apache2-doc ark awesome-doc bacula-doc beets-doc bind9-doc borgbackup-doc buildbot-doc bup-doc cantor
clamav-doc clamav-docs claws-mail-doc cmake-doc cockpit-doc copyq-doc dolphin doublecmd-help-en exim4-doc-html
ffmpeg-doc firebird3.0-doc freedombox-doc-en frr-doc fwbuilder-doc fwupd-doc gramps gwenview k3b-data kaddressbook
kalzium kate kdenlive-data kgeography khangman kmymoney-common konsole korganizer kpat ksudoku kwrite marble-data
mediawiki mpd nano ncmpcpp okular phpmyadmin postfix-doc proftpd-doc quassel roundcube-core rsyslog-doc
skrooge-common weechat-doc wordpress
""".split()  # noqa: SIM905
_STOP = """
the a an of in on at to for and or is are was were be been by with from as that this it its his her their he she they
which who had has have not but also into after before than then when where while during over under between such may can
could would will were there these those other more most some any all each one two first its
"""
STOP = frozenset(_STOP.split())
_OTHER_LANGUAGE = re.compile(r"/(de|fr|es|it|ja|ru|pt|zh|uk|nl|sv|ca|cs|pl|pt_BR)[/_.]")
_NOT_TEXT = re.compile(r"(?is)<(script|style|nav|footer|header)\b.*?</\1>|<!--.*?-->|<pre\b.*?</pre>")
_PARAGRAPH = re.compile(r"(?is)<(p|para|li|dd)\b[^>]*>(.*?)</\1>")
_HEADING = re.compile(r"(?is)<(h[1-4]|title|dt)\b[^>]*>(.*?)</\1>")
_TAG = re.compile(r"<[^>]+>")
_IS_A = re.compile(r"(.{3,60}?) (?:\(.*?\) )?(is|was|are|were) (?:an?|the) (.{10,80}?)[,.;]")


def documentation(packages: Path) -> tuple[list[str], list[str]]:
    """Paragraphs and headings of the documentation, sorted and without copies; packages that are missing are got."""
    packages.mkdir(parents=True, exist_ok=True)
    missing = [name for name in PACKAGES if not any(packages.glob(f"{name}_*.deb"))]
    if missing:
        subprocess.run(["apt-get", "download", *missing], cwd=packages, check=True)
    unpacked = packages / "unpacked"
    if not unpacked.is_dir():
        for file in sorted(packages.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(file), str(unpacked)], check=True)
    paragraphs, headings = set(), set()
    for file in sorted(unpacked.rglob("*")):
        if file.is_file() and not file.is_symlink() and not _OTHER_LANGUAGE.search(f"/{file.relative_to(unpacked)}"):
            page = _NOT_TEXT.sub(" ", markup(file))
            for _, inside in _PARAGRAPH.findall(page):
                text = plain(inside)
                if 6 <= len(text.split()) <= 200 and sum(c.isascii() for c in text) > 0.97 * len(text):
                    paragraphs.add(text)
            for _, inside in _HEADING.findall(page):
                text = plain(inside).strip("¶ #")
                if 2 <= len(text.split()) <= 14 and text.isascii():
                    headings.add(re.sub(r"^[\d.]+\s*", "", text))
    return sorted(paragraphs), sorted(headings)


def markup(file: Path) -> str:
    """The text of a file of HTML or DocBook, compressed or not; that of another kind is empty."""
    name = file.name.lower()
    if name.endswith(".html.gz"):
        return gzip.decompress(file.read_bytes()).decode("utf-8", "ignore")
    if name == "index.cache.bz2":
        return bz2.decompress(file.read_bytes()).decode("utf-8", "ignore")
    if name.endswith((".html", ".htm", ".docbook")):
        return file.read_bytes().decode("utf-8", "ignore")
    return ""


def plain(inside: str) -> str:
    """A piece of markup without its tags."""
    return " ".join(html.unescape(_TAG.sub(" ", inside)).split())


class Forms:
    """Draws stretches, keywords and questions from texts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def stretch(self, text: str) -> str:
        """Three to ten words that follow each other."""
        words = text.split()
        count = self.random.randint(3, 10)
        if len(words) <= count:
            return text.rstrip(".")
        first = 0 if self.random.random() < 0.3 else self.random.randrange(len(words) - count)
        return " ".join(words[first : first + count]).strip(" ,.;:()\"'")

    def keywords(self, text: str) -> str:
        """Two to six content words in any order; nothing where there are fewer."""
        words = [word for word in re.findall(r"[A-Za-z0-9][\w'-]*", text) if word.lower() not in STOP and len(word) > 2]
        words = list(dict.fromkeys(words))
        count = min(len(words), self.random.randint(2, 6))
        return " ".join(self.random.sample(words, count)).lower() if count > 1 else ""

    def asked(self, heading: str) -> str:
        """A question about what a heading names: ``Adding a printer`` is asked as ``how do i add a printer``."""
        lower = heading[0].lower() + heading[1:]
        doing = re.match(r"([a-z]+?)ing (.+)", lower)
        if doing:
            return "how do i " + re.sub(r"(.)\1$", r"\1", doing[1]) + " " + doing[2]
        begins = ["what is ", "how does ", "problem with ", "help with ", "where is "]
        return self.random.choice(begins) + lower + self.random.choice(["", "?"])


def texts_of(articles: Sequence[Sequence[str]], paragraphs: Sequence[str], headings: Sequence[str]) -> list[str]:
    """All texts in random order, none twice."""
    forms = Forms(42)
    draw = forms.random
    places = [(article, at) for article in articles for at in range(len(article))]
    found = [article[at] for article, at in draw.sample(places, 170_000)]
    found += [" ".join(article[at : at + draw.randint(2, 8)]) for article, at in draw.sample(places, 110_000)]
    for article, at in draw.sample(places, 90_000):
        stretch = forms.stretch(article[at])
        found.append(stretch.lower() if draw.random() < 0.5 else stretch)
    found += [forms.keywords(" ".join(article[at : at + 3])) for article, at in draw.sample(places, 40_000)]
    for article in articles:
        if defined := _IS_A.match(article[0]):
            who, verb, what = defined.groups()
            found += [f"what {verb} {who}?", f"{who} {what}", f"which {what}?"]
    found += paragraphs
    found += [draw.sample(paragraphs, 1)[0].split(". ")[0] for _ in range(40_000)]
    found += [forms.stretch(paragraph).lower() for paragraph in draw.sample(paragraphs, 50_000)]
    found += [forms.keywords(paragraph) for paragraph in draw.sample(paragraphs, 25_000)]
    for heading in headings:
        found += [heading, forms.asked(heading)]
    texts = sorted({" ".join(text.split()) for text in found if len(text.split()) > 1 and len(text) < 3000})
    draw.shuffle(texts)
    return texts


def main() -> None:
    """Writes OUT/texts.txt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wiki", type=Path, required=True, help="running text: a sentence a line, blank lines between")
    parser.add_argument("--packages", type=Path, help="folder of .deb files, by default OUT/packages")
    options = parser.parse_args()
    with lzma.open(options.wiki, "rt", encoding="utf-8") as file:
        articles = [part.split("\n") for part in file.read().strip().split("\n\n")]
    paragraphs, headings = documentation(options.packages or options.out / "packages")
    texts = texts_of(articles, paragraphs, headings)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    print(f"{len(texts):,} texts of {sum(len(text.split()) for text in texts) / len(texts):.1f} words")


if __name__ == "__main__":
    main()
