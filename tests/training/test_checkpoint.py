"""What is written is read back to the bit; what was damaged or made elsewhere is refused."""

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from diskoop.data.sequences import Units
from diskoop.errors import InputError
from diskoop.models.autoencoder import build_model
from diskoop.run_folder import RunFolder, load_model, load_settings
from diskoop.settings import Settings
from diskoop.tensor_files import load_weights, read_tensors, write_tensors

TENSORS = {
    "a": torch.arange(12, dtype=torch.float64).reshape(3, 4).T,
    "step": torch.tensor(7.0),
    "flags": torch.tensor([True, False]),
}
RECORD = {"step": 3, "sums": {"rec": 0.1 + 0.2}, "history": [{"epoch": 1}]}


def test_there_and_back(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x.safetensors", "thing", TENSORS, RECORD)
    tensors, record = read_tensors(tmp_path / "x.safetensors", "thing")
    assert record == RECORD
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255), cut=st.booleans())
def test_no_damage_goes_unnoticed(tmp_path: Path, where: float, flip: int, cut: bool) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, "thing", TENSORS, RECORD)
    content = bytearray(path.read_bytes())
    at = int(where * len(content))
    if cut:
        content = content[:at]
    else:
        content[at] ^= flip
    path.write_bytes(content)
    try:
        tensors, record = read_tensors(path, "thing")
    except InputError as error:
        assert str(path) in str(error)  # noqa: PT017 - either refused with a sentence, or unharmed (a padding byte)
    else:
        assert record == RECORD
        assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_files_of_other_makers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with pytest.raises(InputError, match="is missing"):
        read_tensors(path, "thing")
    save_file(TENSORS | {"a": torch.zeros(2)}, path)
    with pytest.raises(InputError, match="is not what it should be"):
        read_tensors(path, "thing")
    write_tensors(path, "other", TENSORS, RECORD)
    with pytest.raises(InputError, match=r"expected the format 'diskoop 1 thing', got .*other"):
        read_tensors(path, "thing")
    path.write_text("hello")
    with pytest.raises(InputError, match="is damaged"):
        read_tensors(path, "thing")


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, "thing", TENSORS, RECORD)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_tensors(path, "thing", TENSORS, {"not JSON": object()})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["x.safetensors"]


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    layer = torch.nn.Linear(2, 3)
    fine = layer.state_dict()
    with pytest.raises(InputError, match="'bias' is missing"):
        load_weights(layer, {"weight": fine["weight"]}, tmp_path)
    with pytest.raises(InputError, match="'more' is extra"):
        load_weights(layer, {**fine, "more": torch.zeros(1)}, tmp_path)
    with pytest.raises(InputError, match=r"'bias' has shape \(4,\), wanted \(3,\)"):
        load_weights(layer, {**fine, "bias": torch.zeros(4)}, tmp_path)


def test_a_model_from_before_a_setting_existed_is_read(tmp_path: Path) -> None:
    chosen = Settings.of({"model": {"k": 6, "h": 5}, "spectrum": {"static": 2}})
    model = build_model(chosen.model, (3,))
    record = chosen.model_dump()
    del record["model"]["decoder_memory"], record["model"]["dynamic_noise"]
    folder = RunFolder(tmp_path)
    written = {"settings": record, "frame": (3,), "units": vars(Units())}
    write_tensors(folder.model, "model", model.state_dict(), written)
    again, _ = load_model(folder, chosen)
    assert all(torch.equal(weight, model.state_dict()[name]) for name, weight in again.state_dict().items())
    with pytest.raises(InputError, match="has changed since"):
        load_model(folder, chosen.replaced({"model": {"dynamic_noise": 0.5}}))


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        RunFolder(tmp_path / "none").require_finished()
    with pytest.raises(InputError, match=r"settings\.yaml is missing"):
        RunFolder(tmp_path).require_finished()
    (tmp_path / "settings.yaml").touch()
    with pytest.raises(InputError, match="is not finished; diskoop train --resume"):
        RunFolder(tmp_path).require_finished()


def test_a_folder_around_runs_says_where_they_are(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "settings.yaml").write_text("", encoding="utf-8")
    for ask in (load_settings, RunFolder.require_finished):
        with pytest.raises(InputError, match=r"no run at .*; there is one at '.*a' and at '.*b'$"):
            ask(RunFolder(tmp_path))
    with pytest.raises(InputError, match=r"settings.yaml is missing$"):
        RunFolder(tmp_path.parent / "nowhere").require_settings()
