"""whether torchrun started this process together with others, and the command that does so again"""

import os


def is_launched() -> bool:
    """Whether this process is one of several that torchrun started.

    Example:
        >>> is_launched()
        False
    """
    return int(os.environ.get("WORLD_SIZE", 1)) > 1 and "RANK" in os.environ


def is_main() -> bool:
    """Whether this process writes files and prints: the first of several, or the only one."""
    return not is_launched() or os.environ["RANK"] == "0"


def relaunched(command: str) -> str:
    """The command that runs `command`, a line of diskoop, in as many processes as run now.

    Example:
        >>> relaunched("diskoop train --resume runs/demo")  # in one process
        'diskoop train --resume runs/demo'
    """
    if not is_launched():
        return command
    count = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    nodes = int(os.environ["WORLD_SIZE"]) // count
    more = "" if nodes == 1 else f"--nnodes {nodes} --rdzv-backend c10d --rdzv-endpoint HOST:PORT "
    return f"torchrun {more}--nproc-per-node {count} -m {command}"
