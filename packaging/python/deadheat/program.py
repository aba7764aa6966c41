"""The program: where it is, and one call of it."""

import os
import shutil
import subprocess
import sysconfig
from typing import Optional, Sequence


class DeadheatError(Exception):
    """The program refused what was asked, or failed. `code` is its exit code: 2 for a wrong request, 1 for a failure."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message or f"deadheat ended with exit code {code}")
        self.code = code


def program() -> str:
    """Returns the path of the program: DEADHEAT, that of this environment, or the first one of PATH.

    Raises FileNotFoundError where there is none.
    """
    named = os.environ.get("DEADHEAT")
    own = os.path.join(sysconfig.get_path("scripts"), "deadheat")
    found = named or (own if os.access(own, os.X_OK) else shutil.which("deadheat"))
    if not found:
        raise FileNotFoundError("deadheat is neither in this environment nor on PATH: pip install deadheat")
    return found


def run(arguments: Sequence[str], accepted: Sequence[int] = (0,), cwd: Optional[str] = None) -> "subprocess.CompletedProcess[str]":
    """Runs the program, and returns what it printed, and its exit code, which is one of those accepted.

    Raises DeadheatError, with the program's own words, if it ends otherwise.
    """
    command = [program(), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=cwd)
    if done.returncode not in accepted:
        raise DeadheatError(done.returncode, done.stderr.strip())
    return done
