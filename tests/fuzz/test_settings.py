"""Settings files, presets and the command line, damaged and invented."""

from importlib import resources
from pathlib import Path

import pytest
import yaml
from hypothesis import strategies as st

from diskoop.settings import Settings, keys, merged, parse_overrides, presets
from tests.fuzz.inputs import COUNTS, damaged, fuzz

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.dates() | st.binary(max_size=4)
    | st.sampled_from(["auto", "static", "none", "1e400", "0x10", "null", ".inf", "32", "element", "cuda"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=3,
)  # fmt: skip
SECTIONS = st.sampled_from([*Settings.model_fields, "format", "modle"]) | st.text(max_size=6)
NAMES = st.sampled_from([key.partition(".")[2] for key in keys()] + ["batch", "latent"]) | st.text(max_size=6)
PAGES = st.dictionaries(SECTIONS, st.dictionaries(NAMES, VALUES, max_size=4) | VALUES, max_size=4)
TOKENS = st.sampled_from(
    ["model:", "k", ": ", "{", "}", "[", "]", "\n", "  ", "- ", "&a ", "*a", "!!python/object:os.system ", "<<", "? ",
     "|", ">", "#", "'", '"', "1", "%YAML 9", "---", "...", "\t", "\x00", "\ufeff", "é", "train", "steps", "~", ",",
     "!!set "]
)  # fmt: skip
TEXTS = st.lists(TOKENS, max_size=25).map("".join) | st.text(max_size=60)
FULL_NAMES = st.sampled_from(keys()) | st.text(max_size=8)
WORDS = st.lists(
    st.tuples(FULL_NAMES, st.sampled_from(["=", "==", "", " = "]), TEXTS | VALUES.map(str)).map("".join), max_size=4
)
PRESETS = [(resources.files("diskoop") / "presets" / f"{name}.yaml").read_bytes() for name in presets()]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param(PAGES.map(lambda page: yaml.safe_dump(page).encode()), id="pages"),
        pytest.param(TEXTS.map(lambda text: text.encode(errors="replace")), id="texts"),
        pytest.param(st.sampled_from(PRESETS).flatmap(damaged), id="presets"),
    ],
)
def test_settings_files(inputs: st.SearchStrategy[bytes], count: int, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"

    def use(content: bytes) -> None:
        path.write_bytes(content)
        Settings.load(path).save(tmp_path / "again.yaml")
        assert Settings.load(tmp_path / "again.yaml") == Settings.load(path)

    fuzz(count, inputs, use, tmp_path)


@pytest.mark.parametrize("count", COUNTS)
def test_settings_on_the_command_line(count: int, tmp_path: Path) -> None:
    fuzz(count, WORDS, lambda words: Settings.of(merged({}, parse_overrides(words))), tmp_path)
