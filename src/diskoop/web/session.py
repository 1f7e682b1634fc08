"""an explorer's session with one run: spectrum, factors, clips and maps as JSON; names; a training that goes on"""

import math
from collections.abc import Mapping
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from diskoop.analysis.discovery.results import DiscoveryResult
from diskoop.analysis.embedding import embed
from diskoop.errors import InputError
from diskoop.numerics.factors import SPECTRAL_PARTS
from diskoop.run import Run, load, load_unfinished
from diskoop.run_folder import RunFolder, read_metrics
from diskoop.training.checkpoint import is_finished
from diskoop.web.edits import Editor
from diskoop.web.library import UPLOADS, ClipId, ClipLibrary, without_options
from diskoop.web.media import kind_of

MAX_MAP_CLIPS = 400  # points of a map
MIN_RECORDED_SHARE = 0.05  # of a mode that lies in a factor


class Session:
    """A run that is explored, with the clips and names that pages see; safe to call from several threads.

    Args:
        path: the run's folder, whose training may still go on, or `pretrained:NAME`.
        device: cpu, cuda or mps.
    """

    def __init__(self, path: str | Path, device: str = "cpu") -> None:
        self._folder, self._device = RunFolder.of(path), device
        self._lock = RLock()
        self._undo: list[DiscoveryResult] = []
        self._maps: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = 0  # grows when the model or the names of its factors change
        self.run = self._load()
        self.library = ClipLibrary(self.run)
        self.editor = Editor(self.run, self.library)

    def close(self) -> None:
        self.library.close()

    def _load(self) -> Run:
        seen, finished = self._stamps(), is_finished(self._folder)
        run = load(self._folder.name, self._device) if finished else load_unfinished(self._folder.path, self._device)
        self._seen, self.is_finished = seen, finished  # as it is shown
        return run

    def _stamps(self) -> list[tuple[int, int]]:
        """Times and sizes of the files that training writes; none where it cannot go on."""
        if not self._folder.checkpoint.exists():
            return []
        stats = [file.stat() for file in (self._folder.checkpoint, self._folder.model) if file.exists()]
        return [(stat.st_mtime_ns, stat.st_size) for stat in stats]

    def _show(self, run: Run) -> None:
        """Take another state of the run."""
        self.run, self._folder = run, run.folder  # of a pretrained run, renaming has made a copy
        self.editor = Editor(run, self.library)
        self._maps.clear()
        self.version += 1

    # --- what the run is

    def facts(self) -> dict[str, Any]:
        """The run, its spectrum and its factors."""
        with self._lock:
            run, shape = self.run, self.run.frame_shape
            kind = kind_of(run.units, shape)
            features = list(run.units.feature_names(shape[0])) if kind == "series" else []
            return {
                "version": self.version,
                "name": self._folder.name if self._folder.pretrained else self._folder.path.resolve().name,
                "path": self._folder.name,
                "data": run.settings.data.name or Path(run.settings.data.path or "puppets").name,
                "kind": kind,
                "frame": shape,
                "features": features,
                "k": run.settings.model.k,
                "radius": run.settings.spectrum.radius,
                "is_finished": self.is_finished,
                "fitted_on": run.operator.fitted_on,
                "modes": self._modes(),
                "factors": self._factors(),
                "notes": [] if run.factors is None else [without_options(note) for note in run.factors.notes],
                "can_undo": bool(self._undo),
            }

    def _modes(self) -> list[dict[str, Any]]:
        spectrum, static = self.run.spectrum()
        named = {} if self.run.factors is None else {each.name: each.factor for each in self.run.factors.factors}
        shares: dict[str, Any] = {}
        if spectrum.condition < 1e11:  # of each mode in each factor; they sum to 1 over all factors
            to_modes, from_modes = spectrum.to_modes.cpu(), spectrum.from_modes.cpu()
            for name, factor in named.items():
                inside = from_modes @ factor.projector.to(from_modes) @ to_modes
                shares[name] = inside.diagonal().real.tolist()
        modes = []
        for index, value in enumerate(spectrum.eigenvalues.cpu().tolist()):
            found = {
                name: round(share[index], 3) for name, share in shares.items() if share[index] > MIN_RECORDED_SHARE
            }
            modes.append(
                {
                    "index": index,
                    "re": value.real,
                    "im": value.imag,
                    "static": bool(static[index]),
                    "pair": spectrum.complete([index]),
                    **_timing(value),
                    "factors": dict(sorted(found.items(), key=lambda item: -item[1])),
                }
            )
        return modes

    def _factors(self) -> list[dict[str, Any]]:
        parts = [{"name": name, "kind": "part"} for name in SPECTRAL_PARTS]
        found = self.run.factors
        if found is None:
            return parts
        weak = {factor.name for factor in found.weak}
        return [*parts, *({**each.as_dict(), "is_weak": each.name in weak} for each in found.factors)]

    def verdict(self) -> dict[str, Any]:
        """The verdict on the run, in sentences, the conclusion last; a reason where there is none."""
        if not self.is_finished:
            return {"sentences": ["the training goes on; figures change with every checkpoint"], "problems": []}
        try:
            verdict = self.run.verdict()
        except InputError as error:
            return {"sentences": [f"no verdict: {without_options(str(error))}"], "problems": []}
        return {"sentences": verdict.sentences(), "problems": verdict.problems}

    # --- maps

    def map(self, split: str, factor: str) -> dict[str, Any]:
        """Clips as points in the plane, near each other where a factor's codes are (t-SNE).

        Args:
            split: of which MAX_MAP_CLIPS at most are drawn, evenly spread.
            factor: a factor's name.

        Returns:
            `points`, each with id, name, labels, x and y; coordinates are from 0 to 1.
        """
        with self._lock:
            key, version, editor = (split, factor), self.version, self.editor
            if key in self._maps:
                return self._maps[key]
        if split == UPLOADS:
            raise InputError("maps are of the run's own clips; choose one of its splits")
        clips = self.library.clips(split)
        drawn = np.unique(np.linspace(0, len(clips) - 1, min(len(clips), MAX_MAP_CLIPS)).astype(int))
        points = embed(editor.code(clips.select(drawn), factor))
        low, extent = points.min(0), np.ptp(points, axis=0)
        placed = ((points - low) / np.where(extent == 0, 1, extent)).round(4).tolist()
        found = {
            "points": [
                {**self.library.describe(ClipId(split, int(index))), "x": x, "y": y}
                for index, (x, y) in zip(drawn, placed, strict=True)
            ],
            "of": len(clips),
        }
        with self._lock:
            if version == self.version:
                self._maps[key] = found
        return found

    # --- names

    def rename(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Call factors by other names, {old: new}, in the run's folder too."""
        with self._lock:
            before = self.run.require_factors()
            self._show(self.run.rename_factors(names))
            self._undo.append(before)
            return self.facts()

    def undo(self) -> dict[str, Any]:
        """Take back the last renaming."""
        with self._lock:
            if not self._undo:
                raise InputError("nothing was renamed since the explorer was opened")
            self._show(self.run.save_factors(self._undo[-1]))
            self._undo.pop()
            return self.facts()

    # --- training

    def training(self) -> dict[str, Any]:
        """Losses of every validation so far; loads the newest checkpoint where training goes on."""
        with self._lock:
            self._refresh()
            try:
                rows = read_metrics(self._folder)
            except InputError:
                rows = []  # no validation yet
            return {"version": self.version, "is_finished": self.is_finished, "rows": [_finite(row) for row in rows]}

    def _refresh(self) -> None:
        """Show the newest checkpoint, or the finished run; one that was finished may go on again."""
        if self._stamps() != self._seen:
            self._show(self._load())


def _timing(eigenvalue: complex) -> dict[str, float | None]:
    """Frames of a full turn, and frames after which half is left; None: never."""
    modulus, angle = abs(eigenvalue), abs(math.atan2(eigenvalue.imag, eigenvalue.real))
    fades = 0 < modulus < 1
    return {
        "modulus": modulus,
        "period": 2 * math.pi / angle if angle > 1e-9 else None,
        "half_life": math.log(0.5) / math.log(modulus) if fades else None,
    }


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of metrics without numbers that JSON does not have."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
