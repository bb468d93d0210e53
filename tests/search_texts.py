"""The texts of the index that several tests share."""

TEXTS = ["A cat sleeps.", "Rain falls on the roof.", "A cat sleeps.", "The train is late again.", "Dogs bark at night."]
