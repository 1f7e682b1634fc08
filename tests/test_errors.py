"""The nearest valid name, or all of them."""

from diskoop.errors import suggest


def test_near_names_are_suggested_and_far_ones_listed() -> None:
    assert suggest("tset", ["train", "val", "test"]) == "did you mean 'test'?"
    assert suggest("xyz", ["b", "a"]) == "choose one of a, b"


def test_the_right_key_in_the_wrong_section_comes_first() -> None:
    assert suggest("model.static", ["model.operator_scope", "spectrum.static"]) == "did you mean 'spectrum.static'?"
