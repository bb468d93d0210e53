"""The texts of the indexes that several tests share."""

from helpers import filled
from opencse.text import sample

TEXTS = ["A cat sleeps.", "Rain falls on the roof.", "A cat sleeps.", "The train is late again.", "Dogs bark at night."]

LINES = list(dict.fromkeys(filled(sample.TRAIN)))[:240]
DOCUMENTS = [f"{one} {other}" for one, other in zip(LINES[::2], LINES[1::2], strict=True)]
"""Two lines of the sample each."""
