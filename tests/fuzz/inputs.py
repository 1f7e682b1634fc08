"""What the fuzz tests share: how many inputs, damaged bytes, and the property that all of them check."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from diskoop.errors import InputError
from diskoop.storage import cached_in
from tests.helpers.cli import at_most

# Inputs of each kind. `pytest -m slow tests/fuzz` tries over 10,000 in all, always the same ones.
COUNTS = [pytest.param(8, id="few"), pytest.param(380, id="many", marks=pytest.mark.slow)]
SECONDS = 20  # at most, for one input

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


def fuzz(count: int, inputs: st.SearchStrategy[Any], use: Callable[[Any], object], folder: Path) -> None:
    """Check `use` on `count` inputs: it works or raises an InputError of one line, soon, with nothing half written.

    Args:
        count: of inputs.
        inputs: where they come from.
        use: puts an input where it belongs and reads it, in `folder` and with the cache in `folder`/cache.
        folder: the test's own.
    """

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs)
    def check(given_input: Any) -> None:
        sentence = "it works"
        with cached_in(folder / "cache"), at_most(SECONDS):
            try:
                use(given_input)
            except InputError as error:
                sentence = str(error)
        assert len(sentence.splitlines()) == 1, sentence
        assert list(folder.rglob(".*")) == []

    check()


@st.composite
def damaged(draw: st.DrawFn, original: bytes) -> bytes:
    """`original` with bits flipped, bytes replaced, pieces cut out, doubled or put in, or its end cut off."""
    content = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        if not content:
            break
        # Headers are short, and most of what can go wrong is in them.
        last = min(len(content) - 1, draw(st.sampled_from([64, 512, len(original)])))
        at = draw(st.integers(0, last))
        length = draw(st.integers(0, 40))
        match draw(st.sampled_from(["flip", "replace", "cut", "double", "insert", "truncate"])):
            case "flip":
                content[at] ^= 1 << draw(st.integers(0, 7))
            case "replace":
                piece = draw(
                    st.binary(min_size=1, max_size=8) | st.sampled_from([b"\xff" * 4, b"\0" * 4, b"-1", b"9" * 9])
                )
                content[at : at + len(piece)] = piece
            case "cut":
                del content[at : at + length]
            case "double":
                content[at:at] = content[at : at + length]
            case "insert":
                content[at:at] = draw(st.binary(max_size=8))
            case "truncate":
                del content[draw(st.integers(0, len(content) - 1)) :]
    return bytes(content)


@st.composite
def changed_json(draw: st.DrawFn, original: bytes) -> bytes:
    """A JSON text with one value, at any depth, replaced, removed or added."""
    page = json.loads(original)
    inside = page
    while isinstance(inside, dict | list) and inside:
        key = draw(st.sampled_from(sorted(inside) if isinstance(inside, dict) else range(len(inside))))
        deeper = inside[key]
        if not (isinstance(deeper, dict | list) and deeper and draw(st.booleans())):
            match draw(st.sampled_from(["replace", "remove", "add"])):
                case "replace":
                    inside[key] = draw(JSON_VALUES)
                case "remove":
                    del inside[key]
                case "add":
                    if isinstance(inside, dict):
                        inside[draw(st.text(max_size=5))] = draw(JSON_VALUES)
                    else:
                        inside.append(draw(JSON_VALUES))
            break
        inside = deeper
    return json.dumps(page).encode()
