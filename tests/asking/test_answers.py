"""Questions are read from whatever a language model writes around them."""

from __future__ import annotations

import json
import time

import pytest

from opencse.asking.writing import read_questions

TWO = ["How is it cleaned?", "What removes limescale?"]


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps(TWO),
        json.dumps(TWO, indent=2),
        "Here are two questions:\n" + json.dumps(TWO) + "\nI hope this helps!",
        f"```json\n{json.dumps(TWO)}\n```",
        f"```\n{json.dumps(TWO)}",
        json.dumps({"questions": TWO}),
        json.dumps([{"question": one, "answer": "vinegar"} for one in TWO]),
        "\n".join(json.dumps({"query": one}) for one in TWO),
        json.dumps({"1": TWO[0], "2": TWO[1]}),
        "['How is it cleaned?', 'What removes limescale?',]",
        f"questions = {json.dumps(TWO)}",
        "1. How is it cleaned?\n2. What removes limescale?",
        "1) **How is it cleaned?**\n2) **What removes limescale?**",
        "[1] How is it cleaned?\n[2] What removes limescale?",
        "Here they are:\n\n(1) How is it cleaned?\n(2) What removes limescale?",
        "**1.** How is it cleaned?\n**[2]** What removes limescale?",
        "[Q1] How is it cleaned?\n[Q2]: What removes limescale?",
        "- How is it cleaned?\n- What removes limescale?",
        "Q1: How is it cleaned?\n\nQ2: What removes limescale?",
        'Sure!\n\n* "How is it cleaned?"\n* "What removes limescale?"\n\nLet me know if you need more.',
        "„How is it cleaned?“\n“What removes limescale?”",
        "How is it cleaned?\nWhat removes limescale?",
        '<think>They want ["two questions"].</think>\n' + json.dumps(TWO),
        '["never read"]\n</think>\n' + json.dumps(TWO),
        json.dumps(["1. How is it cleaned?", '"What removes\nlimescale?"']),
    ],
)
def test_ways_to_write_two_questions(answer: str) -> None:
    assert read_questions(answer) == TWO


@pytest.mark.parametrize(
    "answer", ["", "   ", "[1]", "[1]\n[2]", "```json\n```", "[]", "{}", "<think>hmm", "[1, 2]", "***", '["\\ud800"]']
)
def test_no_question_in_an_answer(answer: str) -> None:
    assert read_questions(answer) == []


def test_of_an_answer_that_was_stopped_the_last_part_is_dropped() -> None:
    assert read_questions('["How is it cleaned?", "What rem', finished=False) == TWO[:1]
    assert read_questions("Here is one:\nHow is it cleaned?\nWhat rem", finished=False) == TWO[:1]


@pytest.mark.parametrize(
    "query", ["3D printers", "2001: a space odyssey 2", "1.5 volts or 3", 'what does [1] mean in "x"', "C# or F#"]
)
def test_numbers_and_quotes_that_belong_to_a_query_stay(query: str) -> None:
    assert read_questions(json.dumps([query, "another"])) == [query, "another"]
    assert read_questions(f"{query}\nanother") == [query, "another"]


def test_time_is_in_proportion_to_the_length() -> None:
    """Each took from 2 seconds to a minute and a half."""
    for part in ("[", "[\n", '{"a": \n', "[x\n", '"\\', '["x\n', "['a',\n"):
        began = time.process_time()
        read_questions("[" + part * (2**17 // len(part)))
        read_questions("```" + " " * 2**17)
        assert time.process_time() - began < 1.5, part
