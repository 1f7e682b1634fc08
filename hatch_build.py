"""Stamps what is built with the commit it was built from; an editable install asks git instead."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Stamp(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        try:
            self._git("ls-files", "--error-unmatch", Path(__file__).name)  # not a repository around an archive
            text = self._git("rev-parse", "--short=12", "HEAD") + (
                "+" if self._git("status", "--porcelain", "src") else ""
            )
        except (OSError, subprocess.CalledProcessError):  # built from an archive
            return
        self.folder = tempfile.TemporaryDirectory()
        stamp = Path(self.folder.name) / "commit.txt"
        stamp.write_text(text + "\n", encoding="utf-8")
        build_data["force_include"][str(stamp)] = "diskoop/commit.txt"

    def _git(self, *words: str) -> str:
        return subprocess.run(
            ["git", "-C", self.root, *words], capture_output=True, text=True, check=True
        ).stdout.strip()
