"""Names of models in the plane of alignment and uniformity."""

from __future__ import annotations

from opencse.analysis.figures.plane import DOT, OFFSETS, _box, _label_offsets, _overlap


def test_names_in_the_plane_cover_neither_points_nor_each_other() -> None:
    names = ["one model", "another model", "a third", "far away"]
    places = [(100.0, 100.0), (103.0, 101.0), (108.0, 99.0), (300.0, 20.0)]
    offsets = _label_offsets(names, places)
    assert offsets[3] == OFFSETS[0], "where there is room, the first place is taken"
    boxes = [
        _box(name, x + dx, y + dy, leftwards=dx < 0)
        for name, (x, y), (dx, dy) in zip(names, places, offsets, strict=True)
    ]
    dots = [(x - DOT, x + DOT, y - DOT, y + DOT) for x, y in places]
    for number, box in enumerate(boxes):
        assert not any(_overlap(box, other) for other in [*dots, *boxes[:number]])
    crowded = _label_offsets(["the same"] * 40, [(0.0, 0.0)] * 40)
    assert crowded[-1] == OFFSETS[0], "no place is left"
