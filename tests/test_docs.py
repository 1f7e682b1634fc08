"""The Python of README and docs runs; their shell blocks name commands, options and settings that exist."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
import typer
import yaml

from diskoop.cli.app import app
from diskoop.data.presets import preset_for
from diskoop.evaluation.results import Key, ModelResults, Results, single_value
from diskoop.search.plan import SearchPlan, plans
from diskoop.settings import Settings, keys, parse_overrides, presets, read_yaml
from diskoop.training import loop
from tests.helpers.media import moving_square, tone, write_csv, write_film, write_sound
from tests.helpers.training import Quiet

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")))
    if "_build" not in path.parts
}
EXTENDING = "docs/extending.md"
LONG_PAGES = ("docs/export.md", "docs/factors.md", "docs/report.md")
COMMANDS: dict[str, click.Command] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
SETTING = re.compile(r"\b((?:data|model|spectrum|loss|train)\.[a-z_]+)=")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def programs() -> Iterator[object]:
    """What a reader would type into one interpreter: the blocks of a page, from each `import diskoop` to the next."""
    for name, text in PAGES.items():
        if name == EXTENDING:
            continue
        parts: list[str] = []
        for code in blocks(text, "python"):
            if not parts or re.search(r"^import diskoop\b", code, re.MULTILINE):
                parts.append(code)
            else:
                parts[-1] += f"\n{code}"
        for number, code in enumerate(parts):
            # Voices take half a minute to synthesise, and graphs and reports some seconds to write.
            is_slow = '"voices"' in code or name in LONG_PAGES
            slow = [pytest.mark.slow] if is_slow else []
            yield pytest.param(name, code, marks=slow, id=f"{name}-{number}")


@pytest.fixture(scope="module")
def folder(video_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages speak of: files of one's own of every kind, and runs on them, trained for a moment only."""
    home = tmp_path_factory.mktemp("docs")
    shutil.copytree(video_run, home / "runs" / "demo")
    keys_read = [Key("multifactor", "score"), Key("swap", column="hair", row="skin")]
    measured = ModelResults("ours", {key: single_value(0.5) for key in keys_read}, "made up")
    Results("Scores", [measured], []).write(home / "runs" / "demo" / "evaluation")
    for number in range(6):
        write_film(home / "clips" / f"{number}.mp4", moving_square(8, 32, 32, number % 3))
    for number in range(10):
        write_sound(home / "recordings" / f"{number}.wav", tone(0.4 + 0.02 * number, 200.0 + 40 * number))
    write_sensors(home / "sensors.csv")
    for source in ("clips", "recordings", "sensors.csv"):
        train_briefly(home / source, home / "runs" / Path(source).stem)
    return home


def write_sensors(path: Path, machines: int = 12, rows: int = 24) -> None:
    """A table as docs/how-to/series.md shows it."""
    number, time = np.divmod(np.arange(machines * rows), rows)
    speed, load = number % 3 + np.sin(0.5 * time + number), 2 - number % 3 + np.cos(0.5 * time + number)
    kind = np.array(["press", "lathe", "drill"])[number % 3]
    write_csv(path, {"id": number, "time": time, "speed": speed.round(3), "load": load.round(3), "machine": kind})


def train_briefly(source: Path, out: Path) -> None:
    """With the preset of its kind, but small and for two steps."""
    data = {"path": str(source)}
    values = read_yaml(preset_for(Settings.of({"data": data}).data))
    values["data"] = values.get("data", {}) | data | ({"size": 32} if source.name == "clips" else {})
    values["model"] |= {"k": 6, "h": 8, "width": 4}
    values["spectrum"] |= {"static": 2}
    values["train"] |= {"steps": 2, "batch_size": 4, "patience": None}
    loop.train(Settings.of(values), out, reporter=Quiet())


@pytest.mark.parametrize(("name", "code"), list(programs()))
def test_python_runs(name: str, code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    exec(compile(code, name, "exec"), {})


# What follows each block of the page; a loss term first, since settings have a weight for every term that they know.
EXTENSIONS = {
    1: "from diskoop.settings import Settings; assert Settings.of({'loss': {'smooth': 0.1}}).loss.smooth == 0.1",
    0: "assert clips.x.shape == (50, 16, 3) and 'place' in clips.labels",
    2: "from diskoop.evaluation.registry import METRICS; assert 'latents' in METRICS",
    3: "from diskoop.settings import ModelSettings\nfrom diskoop.models.autoencoder import build_model\n"
    "assert build_model(ModelSettings(network='linear'), (4,)).encoder.out_features == 40",
    4: "import diskoop\nrun = diskoop.load('runs/demo')\n"
    "assert run.find_factors(run.data('test').select(range(20)), Halves()).names[0] == 'first half'",
}


def test_extensions_run(folder: Path) -> None:
    """In a process of their own: what they register is nobody else's."""
    found = blocks(PAGES[EXTENDING], "python")
    assert len(found) == len(EXTENSIONS)
    programs = [f"{found[number]}\n{then}" for number, then in EXTENSIONS.items()]
    code = f"for program in {programs!r}:\n    exec(program, {{'__name__': '__main__'}})"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=600)


def test_the_plan_of_a_search_is_valid() -> None:
    (text,) = blocks(PAGES["docs/how-to/search.md"], "yaml")
    plan = SearchPlan.of(yaml.safe_load(text))
    assert plan.num_trials == plan.trials


@pytest.mark.parametrize("kind", ["video", "sound", "series", "arrays"])
def test_a_kind_of_data_has_commands_and_python(kind: str) -> None:
    page = PAGES[f"docs/how-to/{kind}.md"]
    assert blocks(page, "python")
    assert "diskoop train data.path=" in "".join(blocks(page, "sh"))
    assert {"../data.md", "../your-data.md"} & set(re.findall(r"\]\(([^)#]+)", page))


def test_python_is_called_so() -> None:
    """No block hides from these tests behind another name of its language."""
    languages = {language for text in PAGES.values() for language in re.findall(r"^```(\w+)", text, re.MULTILINE)}
    assert not languages & {"py", "python3", "pycon", "bash", "shell", "console", "zsh"}


def shell_lines() -> list[object]:
    lines = []
    for name, text in PAGES.items():
        for block in blocks(text, "sh"):
            for line in block.splitlines():
                words = shlex.split(line, comments=True)
                while "&&" in words:
                    lines.append((name, words[: words.index("&&")]))
                    words = words[words.index("&&") + 1 :]
                if words:
                    lines.append((name, words))
    return [pytest.param(words, id=f"{name}: {shlex.join(words)}") for name, words in lines]


@pytest.mark.parametrize("words", shell_lines())
def test_shell_names_what_exists(words: list[str]) -> None:
    while "=" in words[0]:  # OMP_NUM_THREADS=1
        words = words[1:]
    program, rest = words[0].removeprefix(".venv/bin/"), words[1:]
    if program == "diskoop":
        check_command(rest)
    elif program in ("python", "python3"):
        check_script(rest)
    elif program == "torchrun":
        assert rest[rest.index("-m") + 1] == "diskoop"
        check_command(rest[rest.index("-m") + 2 :])
    elif program == "pip":
        check_extras(rest[-1])
    elif program == "bash":
        assert (ROOT / rest[0]).is_file()
    else:
        assert words == [".", ".venv/bin/activate"] or program == "pytest"


def check_command(words: list[str]) -> None:
    """As the command line would, up to running it: options, their values, settings, presets."""
    context = COMMANDS[words[0]].make_context(words[0], words[1:])
    parse_overrides(context.params.get("overrides") or [])
    config = context.params.get("config")
    if words[0] == "search":
        assert config in plans() or config == "search.yaml"  # which docs/how-to/search.md shows
        return
    assert config is None or config in presets()


def check_script(words: list[str]) -> None:
    if words[0] == "-m":
        assert words[1] in ("venv", "sphinx") or (ROOT / f"{words[1].replace('.', '/')}.py").is_file()
        return
    script = (ROOT / words[0]).read_text(encoding="utf-8")
    for word in words[1:]:
        if word.startswith("--"):
            assert f'"{word}"' in script
        elif word.endswith(".yaml"):
            assert (ROOT / word).is_file()
        elif "=" in word:
            parse_overrides([word])


def check_extras(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.search(r"\[(.*)\]", package)
    assert set(extras[1].split(",") if extras else []) <= set(project["optional-dependencies"])


@pytest.mark.parametrize("name", PAGES)
def test_inline_code_names_what_exists(name: str) -> None:
    """Commands and settings in the text, outside blocks."""
    text = re.sub(r"^```.*?^```", "", PAGES[name], flags=re.DOTALL | re.MULTILINE)
    assert set(re.findall(r"`diskoop ([a-z]+)", text)) <= set(COMMANDS)
    code = " ".join(re.findall(r"`[^`]+`", text))
    assert set(SETTING.findall(code)) <= set(keys())


def test_readme_names_every_command() -> None:
    shell = "".join(blocks(PAGES["README.md"], "sh"))
    assert set(re.findall(r"\bdiskoop ([a-z]+)", shell)) == set(COMMANDS)


@pytest.mark.parametrize("name", PAGES)
def test_linked_files_exist(name: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGES[name])
    assert all(((ROOT / name).parent / link).exists() for link in links)
    assert name != "README.md" or {"docs/factors.png", "docs/demo.png"} <= set(links)
