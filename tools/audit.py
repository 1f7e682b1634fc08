"""Are weaknesses known of what diskoop needs? `python tools/audit.py`

Asks an advisory service, with pip-audit in an environment of its own, about every distribution that is installed beside
this interpreter. Exit code 0: none is known; 1: some are, and are listed; 2: nothing was audited, a sentence says why.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import distributions
from pathlib import Path


def fail(sentence: str) -> None:
    print(f"not audited: {sentence}", file=sys.stderr)
    sys.exit(2)


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def main() -> None:
    # Local versions, such as 2.13.0+cpu, are unknown to the services.
    versions = {found.name: found.version.partition("+")[0] for found in distributions() if found.name != "diskoop"}
    with tempfile.TemporaryDirectory() as folder:
        venv.create(f"{folder}/venv", with_pip=True)
        python = Path(folder) / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        install = subprocess.run([python, "-m", "pip", "install", "-q", "pip-audit"], capture_output=True, text=True)
        if install.returncode:
            fail(f"pip-audit cannot be installed here ({last_line(install.stderr)})")
        pins = Path(folder) / "installed.txt"
        pins.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()), encoding="utf-8")
        words = [str(python), "-m", "pip_audit", "-r", str(pins), "--no-deps", "--disable-pip", "-f", "json"]
        audit = subprocess.run(words, capture_output=True, text=True)
    try:
        audited = json.loads(audit.stdout)["dependencies"]
    except (ValueError, KeyError):
        fail(f"no advisory service answered ({last_line(audit.stderr)})")
    # Skipped ones count neither way: pip-audit calls it success where the service knows none of them.
    skipped = [found["skip_reason"] for found in audited if "skip_reason" in found]
    if len(skipped) == len(audited):
        fail(f"no advisory service answered ({skipped[0] if skipped else 'nothing is installed'})")
    known = [(found["name"], found["version"], each) for found in audited for each in found.get("vulns", [])]
    for name, version, weakness in known:
        print(f"{name} {version}: {weakness['id']}, mended in {', '.join(weakness['fix_versions']) or 'no release'}")
    for reason in skipped:
        print(f"skipped: {reason}")
    print(f"{len(audited) - len(skipped)} distributions, {len(known)} known weaknesses; {len(skipped)} skipped")
    sys.exit(bool(known))


if __name__ == "__main__":
    main()
