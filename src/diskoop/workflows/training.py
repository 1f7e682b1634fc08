"""train a run for demo and reproduce: resume it, or find it finished"""

from pathlib import Path

from diskoop.errors import InputError
from diskoop.run import Run
from diskoop.run_folder import RunFolder, load_settings
from diskoop.settings import Settings
from diskoop.training import loop
from diskoop.training.progress import Reporter
from diskoop.workflows.clips import open_run


def train_or_resume(settings: Settings, path: Path, resume_command: str, reporter: Reporter | None = None) -> Run:
    """The finished run in the folder `path`: trained from scratch, resumed, or only loaded.

    Args:
        settings: of the run; one that is there already must have the same, but for its device.
        path: the run's folder.
        resume_command: what to tell a user who interrupts training.
        reporter: where progress goes; None is the terminal.

    Raises:
        InputError: the folder holds a run with other settings.
        Stopped: interrupted, with a checkpoint saved.
    """
    folder = RunFolder(path)
    if not folder.settings.exists():
        loop.train(settings, path, reporter=reporter, resume_command=resume_command)
    elif _without_device(load_settings(folder)) != _without_device(settings):
        raise InputError(f"{str(path)!r} holds a run with other settings; choose another folder with --out")
    elif not (folder.model.exists() and folder.operator.exists()):
        loop.resume(path, reporter=reporter, resume_command=resume_command)
    return open_run(path, "cpu" if settings.train.device == "cpu" else "auto")


def _without_device(settings: Settings) -> Settings:
    """Settings as they compare: any device, absolute paths."""
    return loop.with_absolute_paths(settings).replaced({"train": {"device": "auto"}})
