from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from opencse.errors import UserError
from opencse.text.readers import Source


@pytest.fixture(autouse=True)
def dataset_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`datasets` keeps its copies in the test's own folder."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of one file, beside a file that is not in it."""
    made = tmp_path / "set"
    (made / "data").mkdir(parents=True)
    (made / "data" / "train.jsonl").write_text('{"text": "inside"}\n')
    (tmp_path / "secret.jsonl").write_text('{"text": "outside"}\n')
    return made


def told(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        Source(str(folder)).read()
    message = str(caught.value)
    assert message.startswith(str(folder))
    assert "\n" not in message
    return message


def test_links_out_of_the_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    assert Source(str(folder)).read().rows == [("inside",)]
    link = folder / "data" / "train-more.jsonl"
    link.symlink_to(folder / "data" / "train.jsonl")
    assert Source(str(folder)).read().rows == [("inside",), ("inside",)]
    link.unlink()
    link.symlink_to(tmp_path / "secret.jsonl")
    assert "data/train-more.jsonl is a link to a place outside the folder" in told(folder)
    link.unlink()
    (folder / "linked").symlink_to(tmp_path)
    assert "linked is a link to a place outside the folder" in told(folder)


@pytest.mark.parametrize("card", ["README.md", ".huggingface.yaml"])
@pytest.mark.parametrize(
    "pattern", ["../secret.jsonl", "{above}/secret.jsonl", "http://127.0.0.1:9/secret.jsonl", "data/../../*.jsonl"]
)
@pytest.mark.parametrize(
    "shape", ["data_files: '{}'", "data_files: [{{split: train, path: ['{}']}}]", "data_dir: '{}'"]
)
def test_cards_that_name_data_outside_are_refused(
    folder: Path, tmp_path: Path, card: str, pattern: str, shape: str
) -> None:
    named = pattern.format(above=tmp_path)
    config = f"configs:\n- config_name: default\n  {shape.format(named)}\n"
    (folder / card).write_text(f"---\n{config}---\n" if card == "README.md" else config)
    assert f"{card}: names data outside the folder ({named!r})" in told(folder)


def test_cards_that_name_data_inside_are_followed(folder: Path) -> None:
    (folder / "data" / "other.jsonl").write_text('{"text": "other"}\n')
    config = "configs:\n- config_name: default\n  data_files: data/oth*.jsonl\n"
    (folder / "README.md").write_text(f"---\n{config}---\nA card.\n")
    assert Source(str(folder)).read().rows == [("other",)]
    (folder / "README.md").write_text("---\nconfigs: [}\n---\n")
    assert "README.md: cannot be read (" in told(folder)


def test_a_column_that_calls_itself_an_image_is_not_opened(folder: Path, tmp_path: Path) -> None:
    (folder / "data" / "train.jsonl").write_text('{"text": "%s"}\n' % (tmp_path / "secret.jsonl"))
    info = "dataset_info:\n  features:\n  - name: text\n    dtype: image\n"
    (folder / "README.md").write_text(f"---\n{info}---\n")
    assert "column 'text' holds" in told(folder)


def test_bytes_that_are_not_utf_8(folder: Path) -> None:
    (folder / "data" / "train.jsonl").unlink()
    column = pyarrow.array([b"one", b"caf\xe9"]).view(pyarrow.string())
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), folder / "data" / "train.parquet")
    assert "row 2: column 'text' is not UTF-8 text (byte 0xe9)" in told(folder)
