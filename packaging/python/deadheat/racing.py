"""Races from Python."""

import os
import tempfile
from typing import Any, List, Optional

from .program import run
from .result import Result, load

# Ran; ran, and is not to be trusted; with decided=True, undecided; with gate=, a contender got worse.
RAN = (0, 3, 4, 5)


def race(*contenders: str, workload: Optional[str] = None, path: Optional[str] = None, output: Optional[str] = None, **options: Any) -> Result:
    """Runs a race and returns its result.

    Contenders, workload and path are written as on the command line: "tcp:cc=bbr", "ping:size=64", "delay=25ms,loss=1%". Each
    other option of `deadheat race` is an argument of its name with _ for -: quick=True, budget="30s", to="far.example",
    vary=["placement=same-core|busy"]. `output` keeps the result file, which is else removed once it is read.

    Raises DeadheatError if the program refuses the race or fails. A race that ran and is not to be trusted raises nothing:
    `Result.trusted` is False.
    """
    arguments = ["race", "--quiet", *contenders, *option("workload", workload), *option("path", path)]
    for name, value in options.items():
        arguments += option(name, value)
    if output is not None:
        return finished([*arguments, "--output", output], output)
    with tempfile.TemporaryDirectory(prefix="deadheat-") as folder:
        file = os.path.join(folder, "race.json")
        return finished([*arguments, "--output", file], file)


def finished(arguments: List[str], file: str) -> Result:
    done = run(arguments, accepted=RAN)
    result = load(file)
    result.code, result.text = done.returncode, done.stdout
    return result


def option(name: str, value: Any) -> List[str]:
    """The words of an option: none for None and False, the name alone for True, once for each value of a list."""
    word = "--" + name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [word]
    if isinstance(value, (list, tuple)):
        return [part for each in value for part in option(name, each)]
    # In one word, so that a value may begin with a hyphen.
    return [f"{word}={value}"]
