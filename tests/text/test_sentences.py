"""Where a text is cut into sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencse.text.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("One came. Two went!  Who stayed?", ["One came.", "Two went!", "Who stayed?"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("lower case . as in old files .", ["lower case .", "as in old files ."]),
        ("By J. R. Smith et al. in Fig. 3, e.g. here. Done.", ["By J. R. Smith et al. in Fig. 3, e.g. here.", "Done."]),
        ("It is 3.5 metres. No more.", ["It is 3.5 metres.", "No more."]),
        ("a sine qua non. One.", ["a sine qua non.", "One."]),
        ("abcdefghno. One.", ["abcdefghno.", "One."]),
        ("No. 5 came. approx. 6 did.", ["No. 5 came.", "approx. 6 did."]),
        ("没有。有！", ["没有。", "有！"]),
        (
            "Das Ventil Nr. 5 ist defekt. Siehe z. B. Abb. 3 bzw. S. 4 usw. im Handbuch. Ende.",
            ["Das Ventil Nr. 5 ist defekt.", "Siehe z. B. Abb. 3 bzw. S. 4 usw. im Handbuch.", "Ende."],
        ),
        ("Voir Mme. Dupont. Puis É. Zola vint.", ["Voir Mme. Dupont.", "Puis É. Zola vint."]),
        ("هل هذا جيد؟ نعم.", ["هل هذا جيد؟", "نعم."]),
        ("यह है। वह है।", ["यह है।", "वह है।"]),
        ("ទឹក។ ដី។", ["ទឹក។", "ដី។"]),
        ("ရေ။မြေ။", ["ရေ။", "မြေ။"]),
        ("「行く。」次です。", ["「行く。」", "次です。"]),
        ("1 Use . . . . . 3 2 Index . . 9", ["1 Use . . . . .", "3 2 Index . .", "9"]),
        ("Well . . . who knows? ! Done! 🙂", ["Well . . .", "who knows? !", "Done! 🙂"]),
        (". . . and so on. Yes.", [". . . and so on.", "Yes."]),
        ("好。。。！再见。", ["好。。。！", "再见。"]),
        (". ! ?", [". ! ?"]),
        ("no end", ["no end"]),
        ("", []),
        ("a\nbee.\n\nc.", ["a bee.", "c."]),
    ],
)
def test_sentences(text: str, wanted: list[str]) -> None:
    assert split_sentences(text) == wanted


@given(st.text(alphabet="ab .!?\"')\n", max_size=60))
def test_nothing_is_lost(text: str) -> None:
    found = split_sentences(text)
    assert " ".join(found) == " ".join(text.split())
    assert all(sentence.strip() for sentence in found)
