"""folders at an address such as s3://bucket/set or memory://set, and local ones in the same words"""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from diskoop.data.chunks import reading
from diskoop.data.clips import natural_key
from diskoop.errors import InputError, MissingDependencyError, quoted
from diskoop.input_files import is_address

ZARR_FILES = ("zarr.json", ".zgroup", ".zarray")  # one of them is in every store: of format 3, or 2


@dataclass(frozen=True)
class Folder:
    """A folder or a file that may be elsewhere."""

    address: str  # as the user gave it
    system: Any  # fsspec's file system
    path: str  # there

    @classmethod
    def of(cls, address: str | Path) -> "Folder":
        """What is at an address or a local path; an InputError if nothing is."""
        try:
            import fsspec
        except ImportError:
            raise MissingDependencyError(f"reading {address} needs fsspec: pip install 'diskoop[zarr]'") from None
        with reading(str(address)):
            if is_address(address):
                try:
                    system, path = fsspec.core.url_to_fs(str(address))
                except ValueError as error:
                    raise InputError(f"cannot read {quoted(str(address))}: {error}") from None
            else:  # no URL: in one some characters of a path would mean something else
                system, path = fsspec.filesystem("file"), Path(address).expanduser().resolve().as_posix()
            folder = cls(str(address), system, path.rstrip("/"))
            if not system.exists(folder.path):
                raise InputError(f"there is no file or folder {quoted(str(address))}")
        return folder

    @property
    def name(self) -> str:
        """The last part of the address."""
        return PurePosixPath(self.path).name or self.address

    def is_store(self) -> bool:
        """Whether it is a Zarr store."""
        with reading(self.address):
            return any(self.system.exists(f"{self.path}/{name}") for name in ZARR_FILES)

    def files(self) -> list[str]:
        """Paths of all files in it relative to it, in natural order, without hidden ones; of a file its own name."""
        with reading(self.address):
            if self.system.isfile(self.path):
                return [self.name]
            found = [path[len(self.path) :].lstrip("/") for path in self.system.find(self.path)]
        parts = [name for name in found if not any(part.startswith(".") for part in name.split("/"))]
        return sorted(parts, key=natural_key)

    def path_of(self, file: str) -> str:
        """The path of one of its `files`."""
        return self.path if self.system.isfile(self.path) else f"{self.path}/{file}"
