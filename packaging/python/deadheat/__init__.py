"""Races of network transports: run one, load one, and look at its trials and verdicts.

    import deadheat
    result = deadheat.race("tcp", "udp", path="delay=25ms,loss=1%", quick=True)
    print(result)

`race` runs the program that was installed with this module; DEADHEAT names another one. Every field of a result stands in the
documentation of the program's output (docs/output.md); times are nanoseconds, sizes bytes, rates bits per second.
"""

from .program import DeadheatError, program, run
from .result import Result, load
from .racing import race

__all__ = ["DeadheatError", "Result", "load", "program", "race", "run"]
