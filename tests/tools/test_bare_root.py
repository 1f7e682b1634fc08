"""The Dockerfile is read as Docker reads it, and says nothing that the bare root would leave out."""

import tomllib
from pathlib import Path

import pytest
from tools.bare_root import DOCKERFILE, ROOT, BareRoot, read_dockerfile


def test_the_projects_own_dockerfile_is_understood() -> None:
    build = read_dockerfile(DOCKERFILE.read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f">={build.version}" == project["requires-python"]
    assert (build.suite, build.entry, build.command) == ("bookworm", ["diskoop"], ["demo"])
    install = next(rest for word, rest in build.steps if word == "RUN" and "pip install" in rest)
    assert "-c constraints.txt" in install
    copied = {source for word, rest in build.steps if word == "COPY" for source in rest.split()[:-1]}
    assert all((ROOT / source).exists() for source in copied)
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"}
    assert copied == kept


def test_lines_are_joined_and_comments_left_out() -> None:
    text = '# a\nFROM python:3.12-slim-trixie\nARG A\nRUN one && \\\n    # b\n    two\nWORKDIR /work\n\nCMD ["x"]\n'
    build = read_dockerfile(text)
    assert (build.suite, build.version, build.command) == ("trixie", "3.12", ["x"])
    assert [(word, " ".join(rest.split())) for word, rest in build.steps] == [
        ("RUN", "one && two"),
        ("WORKDIR", "/work"),
    ]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [("FROM ubuntu:24.04", "expected FROM python:VERSION-slim-SUITE"), ("USER me", "does not know 'USER'")],
)
def test_what_it_cannot_do_is_refused(line: str, sentence: str) -> None:
    with pytest.raises(SystemExit, match=sentence):
        read_dockerfile(line)


def test_files_and_variables_go_where_docker_puts_them(tmp_path: Path) -> None:
    root = BareRoot(tmp_path, [])
    for word, rest in (
        ("WORKDIR", "/opt/a"),
        ("WORKDIR", "b"),
        ("COPY", "constraints.txt README.md ./"),
        ("COPY", "src/diskoop/presets presets"),
        ("ENV", 'A=1 B="two words"'),
    ):
        root.take(word, rest)
    assert (root.variables["A"], root.variables["B"]) == ("1", "two words")
    folder = tmp_path / "opt" / "a" / "b"
    assert (folder / "constraints.txt").read_bytes() == (ROOT / "constraints.txt").read_bytes()
    assert {file.name for file in folder.iterdir()} == {"constraints.txt", "README.md", "presets"}
    assert (folder / "presets" / "demo.yaml").exists()
