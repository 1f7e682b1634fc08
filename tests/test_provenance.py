"""A figure's origin: the commit that is run, however it got here, and the preset that a run is nearest to."""

import importlib.util
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from diskoop import provenance
from diskoop.provenance import Origin, code_checksum, commit, nearest_preset
from diskoop.settings import Settings, presets

ROOT = Path(__file__).parents[1]
ORIGINAL_COMMIT_FILE = provenance.COMMIT_FILE


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """What one test found out about the commit is nothing to the next."""
    commit.cache_clear()
    code_checksum.cache_clear()
    yield
    commit.cache_clear()
    code_checksum.cache_clear()


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", folder, *who, *words], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a package like ours, which is where `provenance` now believes to lie, and a file beside it."""
    package = tmp_path / "src" / "diskoop"
    package.mkdir(parents=True)
    (package / "provenance.py").write_text("")
    (tmp_path / "hatch_build.py").write_text("")
    (tmp_path / "README.md").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "all")
    monkeypatch.setattr(provenance, "PACKAGE", package)
    monkeypatch.setattr(provenance, "COMMIT_FILE", package / "commit.txt")
    return tmp_path


def head(folder: Path) -> str:
    return git(folder, "rev-parse", "HEAD")[:12]


# --- the commit of the code that runs ---------------------------------------------------------------------------------


def test_this_checkout_knows_its_commit() -> None:
    package = Path(provenance.__file__).parent
    if provenance.COMMIT_FILE.exists() or not (ROOT / ".git").exists() or ROOT not in package.parents:
        pytest.skip("the package that is tested lies in no checkout")
    changed = "+" if git(ROOT, "status", "--porcelain", "--", str(package)) else ""
    assert commit() == git(ROOT, "rev-parse", "--short=12", "HEAD") + changed


def test_a_checkout_as_committed(checkout: Path) -> None:
    assert commit() == head(checkout)
    assert len(commit()) == 12


def test_the_checksum_of_the_code_tells_uncommitted_changes_apart(checkout: Path) -> None:
    """A + says that files have changed, not which way."""
    module, checksums, commits = checkout / "src" / "diskoop" / "provenance.py", set(), set()
    for text in ("", "a = 1", "a = 2", ""):
        module.write_text(text)
        code_checksum.cache_clear()
        commit.cache_clear()
        checksums.add(code_checksum())
        commits.add(commit())
    assert (len(checksums), len(commits)) == (3, 2)
    (checkout / "src" / "diskoop" / "README.md").write_text("words change no figure")
    code_checksum.cache_clear()
    assert code_checksum() in checksums


def test_a_plus_where_the_package_differs(checkout: Path) -> None:
    (checkout / "README.md").write_text("words change no figure")
    assert commit() == head(checkout)
    commit.cache_clear()
    (checkout / "src" / "diskoop" / "provenance.py").write_text("changed = True")
    assert commit() == head(checkout) + "+"


def test_a_plus_where_the_package_has_a_file_that_nobody_committed(checkout: Path) -> None:
    (checkout / "src" / "diskoop" / "new.py").write_text("")
    assert commit() == head(checkout) + "+"


def test_the_stamp_wins(checkout: Path) -> None:
    provenance.COMMIT_FILE.write_text("0123456789ab+\n")
    assert commit() == "0123456789ab+"


def test_git_is_asked_once(checkout: Path) -> None:
    before = commit()
    (checkout / "src" / "diskoop" / "new.py").write_text("")
    assert commit() == before


def test_outside_git_nobody_can_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "PACKAGE", tmp_path)
    monkeypatch.setattr(provenance, "COMMIT_FILE", tmp_path / "commit.txt")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit() == "unknown"


def test_without_git_nobody_can_tell(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert commit() == "unknown"


def test_a_repository_around_ours_is_another(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an environment inside somebody's project."""
    inside = checkout / ".venv" / "diskoop"
    inside.mkdir(parents=True)
    (inside / "provenance.py").write_text("")
    monkeypatch.setattr(provenance, "PACKAGE", inside)
    assert commit() == "unknown"


# --- the stamp of what is built ---------------------------------------------------------------------------------------


@pytest.fixture
def stamp(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The build hook at work in `checkout`; hatchling, which only builds have, is played by an empty class."""

    class BuildHookInterface:
        root = str(checkout)

    for name in ("", ".builders", ".builders.hooks", ".builders.hooks.plugin", ".builders.hooks.plugin.interface"):
        module = ModuleType(f"hatchling{name}")
        module.BuildHookInterface = BuildHookInterface  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    return hook.Stamp()


def stamped(stamp: Any, version: str = "standard") -> dict[str, str]:
    """What the hook adds to a build: path -> content."""
    build_data: dict[str, Any] = {"force_include": {}}
    stamp.initialize(version, build_data)
    return {inside: Path(file).read_text() for file, inside in build_data["force_include"].items()}


def test_a_build_is_stamped_with_its_commit(stamp: Any, checkout: Path) -> None:
    (checkout / "README.md").write_text("words change no figure")
    assert stamped(stamp) == {"diskoop/commit.txt": head(checkout) + "\n"}
    (checkout / "src" / "diskoop" / "provenance.py").write_text("changed = True")
    assert stamped(stamp) == {"diskoop/commit.txt": head(checkout) + "+\n"}


def test_a_stamp_is_found_where_it_was_put(stamp: Any) -> None:
    (where,) = stamped(stamp)
    assert Path(provenance.__file__).parents[1] / where == ORIGINAL_COMMIT_FILE


def test_an_editable_build_has_no_stamp(stamp: Any) -> None:
    assert stamped(stamp, "editable") == {}


def test_a_build_leaves_nothing_in_the_checkout(stamp: Any, checkout: Path) -> None:
    stamped(stamp)
    assert git(checkout, "status", "--porcelain", "--ignored") == ""


def test_a_build_from_an_archive_has_no_stamp(
    stamp: Any, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp.root = str(tmp_path_factory.mktemp("archive"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(Path(stamp.root).parent))
    assert stamped(stamp) == {}


def test_a_build_from_an_archive_inside_a_repository_has_not_its_stamp(stamp: Any, checkout: Path) -> None:
    stamp.root = str(checkout / "vendor")
    Path(stamp.root).mkdir()
    (Path(stamp.root) / "hatch_build.py").write_text("")
    assert stamped(stamp) == {}


def test_builds_call_the_hook() -> None:
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert "custom" in targets["wheel"]["hooks"]  # hatchling's name for hatch_build.py


@pytest.mark.slow
def test_a_wheel_says_what_it_was_built_from(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout to build from")
    git(ROOT, "clone", "-q", str(ROOT), str(tmp_path / "clone"))
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(tmp_path / "clone")]
    subprocess.run(build, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("diskoop/commit.txt").decode().strip() == head(tmp_path / "clone")


# --- the nearest preset -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", presets())
def test_a_preset_is_nearest_to_itself(name: str) -> None:
    assert nearest_preset(Settings.load(name)) == name


def test_no_preset_at_all() -> None:
    assert nearest_preset(Settings()) == "defaults"


def test_differences_are_listed_in_the_order_of_the_settings() -> None:
    changed = Settings.load("demo").replaced({"train": {"epochs": 60, "grad_clip": 1.0}, "model": {"k": 24}})
    assert nearest_preset(changed) == "demo, model.k=24, train.epochs=60, train.grad_clip=1.0"


def test_the_nearest_is_what_fewest_settings_differ_from() -> None:
    sprites, mug = Settings.load("paper-sprites"), Settings.load("paper-mug")
    both = sprites.replaced({"train": {"batch_size": mug.train.batch_size, "lr": 0.5}})
    assert nearest_preset(both) == "paper-sprites, train.batch_size=16, train.lr=0.5"


@pytest.mark.parametrize("name", presets())
def test_where_a_run_lay_and_on_what_it_ran_do_not_count(name: str) -> None:
    elsewhere = {"data": {"path": "/mnt/data", "labels": "/mnt/labels.csv"}, "train": {"device": "cuda"}}
    assert nearest_preset(Settings.load(name).replaced(elsewhere)) == name


def test_everything_else_counts() -> None:
    changed = {"data": {"limit": 8}, "spectrum": {"radius": 0.25}, "loss": {"pred": 9.0}, "train": {"seed": 4}}
    text = nearest_preset(Settings.load("paper-timit").replaced(changed))
    assert text == "paper-timit, data.limit=8, spectrum.radius=0.25, loss.pred=9.0, train.seed=4"


def test_an_origin_says_how_to_get_a_figure_again() -> None:
    origin = Origin(3, "demo, train.epochs=60", "0123456789ab", "diskoop evaluate runs/a")
    assert (
        str(origin)
        == "trained with seed 3, preset demo, train.epochs=60, commit 0123456789ab, `diskoop evaluate runs/a`"
    )
