"""A release is refused with a sentence for everything that is not ready."""

import subprocess
from pathlib import Path

import pytest

from tools import release


def commit(folder: Path, *words: str) -> None:
    """Run git in a folder, with an author of its own."""
    author = ["-c", "user.name=nobody", "-c", "user.email=nobody@nowhere", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *author, "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A repository that is ready to be released as 1.2.3."""
    package = tmp_path / "src" / "diskoop"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""what it is"""\n\n__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 1.2.3 (2026-01-31)\n\n- New.\n\n## 1.2.2 (2025-12-01)\n\n- Old.\n"
    )
    (tmp_path / "CITATION.cff").write_text("title: diskoop\nversion: 1.2.3\n")
    commit(tmp_path, "init", "-q")
    commit(tmp_path, "add", ".")
    commit(tmp_path, "commit", "-q", "-m", "all")
    return tmp_path


def test_what_is_ready_has_no_problems(ready: Path) -> None:
    assert release.read_version(ready) == "1.2.3"
    assert release.problems(ready) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("CHANGELOG.md", "## 1.2.3 (2026-01-31)", "## 1.2.3 (unreleased)", "dates 1.2.3 'unreleased', wanted a day"),
        ("CHANGELOG.md", "## 1.2.3 (2026-01-31)\n\n- New.\n\n", "", "begins with 1.2.2, the version is 1.2.3"),
        ("CHANGELOG.md", "- New.", "", "says nothing of 1.2.3"),
        ("CHANGELOG.md", "## ", "#### ", "has no section such as ## 0.1.0 (2024-01-31)"),
        ("CITATION.cff", "1.2.3", "1.2.4", "gives the version 1.2.4, the package 1.2.3"),
        ("src/diskoop/__init__.py", "1.2.3", "1.3", "begins with 1.2.3, the version is 1.3"),
    ],
)
def test_what_is_not_ready_is_told(ready: Path, file: str, old: str, new: str, sentence: str) -> None:
    text = (ready / file).read_text()
    (ready / file).write_text(text.replace(old, new))
    commit(ready, "commit", "-q", "-a", "-m", "change")
    assert any(sentence in problem for problem in release.problems(ready))


def test_changed_and_unknown_files_and_a_tag_are_told(ready: Path) -> None:
    (ready / "new.txt").touch()
    assert release.problems(ready) == ["1 files are changed or unknown to git, the first new.txt"]
    (ready / "new.txt").unlink()
    commit(ready, "tag", "v1.2.3")
    assert release.problems(ready) == ["the tag v1.2.3 exists already"]


def test_a_package_without_a_version_is_told(ready: Path) -> None:
    (ready / "src" / "diskoop" / "__init__.py").write_text("")
    with pytest.raises(SystemExit, match="has no line __version__"):
        release.read_version(ready)
