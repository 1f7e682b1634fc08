"""Do the Dockerfile's steps work in a bare Debian? `python tools/bare_root.py [--] [COMMAND...]`

For machines without Docker: debootstrap (a Debian package) makes a bare root of the release that the Dockerfile's base
image has, with Debian's Python in place of the image's; then the steps of the Dockerfile itself are taken in it, and at
the end its command, or COMMAND in place of `demo`. It takes a superuser, and Linux. Nothing is left behind unless
--root names a folder; one that has been made already is used again.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "Dockerfile"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = "ca-certificates,python3,python3-venv"  # what the base image has beside Debian
BASE = re.compile(r"python:(?P<version>\d+\.\d+)-slim-(?P<suite>\w+)")
# What reaches a step from outside: how pip finds packages, and how the network is reached.
PASSED = re.compile(r"PIP_\w+|\w+_proxy|\w+_PROXY|SSL_CERT_FILE")


@dataclass
class Build:
    """What a Dockerfile says: where it begins, its steps in order, and what runs at the end."""

    suite: str = ""  # of Debian
    version: str = ""  # of Python
    steps: list[tuple[str, str]] = field(default_factory=list)  # COPY, ENV, RUN or WORKDIR, and the rest of the line
    entry: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


def read_dockerfile(text: str) -> Build:
    """The build that a Dockerfile describes.

    Raises:
        SystemExit: it holds an instruction that is not known here.
    """
    build = Build()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            if (base := BASE.fullmatch(rest)) is None:
                raise SystemExit(f"expected FROM python:VERSION-slim-SUITE in the Dockerfile, got {line!r}")
            build.suite, build.version = base["suite"], base["version"]
        elif word in ("COPY", "ENV", "RUN", "WORKDIR"):
            build.steps.append((word, rest))
        elif word == "ENTRYPOINT":
            build.entry = json.loads(rest)
        elif word == "CMD":
            build.command = json.loads(rest)
        elif word not in ("", "ARG"):  # the values of arguments come from the environment
            raise SystemExit(f"tools/bare_root.py does not know {word!r} of the Dockerfile's line {line!r}")
    return build


class BareRoot:
    """A Debian in a folder, in which steps of a Dockerfile are taken."""

    def __init__(self, root: Path, shared: list[Path]) -> None:
        self.root, self.shared = root, shared
        self.folder = PurePosixPath("/")
        self.variables = {name: value for name, value in os.environ.items() if PASSED.fullmatch(name)}
        self.variables |= {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

    def make(self, suite: str) -> None:
        if (self.root / "etc" / "debian_version").exists():
            print(f"{self.root} is used as it is", flush=True)
            return
        words = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, str(self.root), MIRROR]
        print("+", shlex.join(words), flush=True)
        with tempfile.TemporaryFile("w+") as log:
            if subprocess.run(words, stdout=log, stderr=subprocess.STDOUT).returncode:
                log.seek(0)
                raise SystemExit(f"debootstrap failed:\n{log.read()[-4000:]}")

    def take(self, instruction: str, rest: str) -> None:
        """One step of the Dockerfile."""
        print(f"+ {instruction} {rest}", flush=True)
        if instruction == "WORKDIR":
            self.folder = self.folder / rest
            self.outside(self.folder).mkdir(parents=True, exist_ok=True)
        elif instruction == "ENV":
            self.variables |= dict(word.split("=", 1) for word in shlex.split(rest))
        elif instruction == "COPY":
            *sources, target = rest.split()
            self.copy(sources, target)
        else:
            self.run(["/bin/sh", "-c", rest])

    def copy(self, sources: list[str], target: str) -> None:
        """Files into a folder whose name ends in a slash; a file or a folder under the target's name otherwise."""
        place = self.outside(self.folder / target)
        for source in sources:
            end = place / source if target.endswith("/") else place
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, end, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                end.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / source, end)

    def outside(self, path: PurePosixPath) -> Path:
        """Where a path inside the root is on this machine."""
        return self.root / path.relative_to("/")

    def run(self, words: list[str]) -> None:
        """Run a command inside; what is mounted for it goes with it."""
        mounts = ["mount -t proc proc proc", "mount --rbind /dev dev"]
        for path in self.shared:
            inside = self.root / path.relative_to("/")
            if path.is_dir():
                inside.mkdir(parents=True, exist_ok=True)
            else:
                inside.parent.mkdir(parents=True, exist_ok=True)
                inside.touch()
            mounts.append(f"mount --bind {shlex.quote(str(path))} {shlex.quote(str(path.relative_to('/')))}")
        assignments = [f"{name}={value}" for name, value in self.variables.items()]
        inner = f"cd {shlex.quote(str(self.folder))} && exec {shlex.join(words)}"
        chroot = shlex.join(["chroot", ".", "/usr/bin/env", "-i", *assignments, "/bin/sh", "-c", inner])
        script = " && ".join([*mounts, f"exec {chroot}"])
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "/bin/sh", "-c", script], cwd=self.root)
        if done.returncode:
            raise SystemExit(f"exit code {done.returncode}: {shlex.join(words)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="the folder of the bare root; by default a temporary one")
    parser.add_argument(
        "--share",
        type=Path,
        action="append",
        default=[],
        help="a file or folder that is also seen inside, such as pip's own settings or packages; repeatable",
    )
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="in place of the Dockerfile's own, demo")
    given = parser.parse_args()
    if missing := [name for name in ("debootstrap", "unshare", "chroot") if shutil.which(name) is None]:
        sys.exit(f"missing: {', '.join(missing)} (Debian has packages debootstrap, util-linux and coreutils)")
    if os.geteuid() != 0:
        sys.exit("debootstrap and chroot take a superuser: run it as root")
    if absent := [str(path) for path in given.share if not path.is_absolute() or not path.exists()]:
        sys.exit(f"--share wants absolute paths of what is there, got {', '.join(absent)}")
    build = read_dockerfile(DOCKERFILE.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as temporary:
        root = BareRoot((given.root or Path(temporary) / "root").resolve(), [Path("/etc/resolv.conf"), *given.share])
        root.make(build.suite)
        root.run(
            ["/usr/bin/python3", "-c", f"import sys; sys.exit('{build.version}' != '%d.%d' % sys.version_info[:2])"]
        )
        for instruction, rest in build.steps:
            root.take(instruction, rest)
        words = [*build.entry, *(given.command or build.command)]
        print("+", shlex.join(words), flush=True)
        root.run(words)
    print("the steps of the Dockerfile work in a bare Debian", flush=True)


if __name__ == "__main__":
    main()
