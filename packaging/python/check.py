"""Run by a Python that has the module: races, and reads the result. With the argument `simulated` the path is in virtual time."""

import sys

import deadheat

simulated = "simulated" in sys.argv
first, second, path = ("sim-datagram", "arq", "sim:delay=5ms,loss=1%") if simulated else ("tcp", "udp", None)
result = deadheat.race(first, second, path=path, workload="ping:count=50", blocks=6, seed=7)
assert result.data["format"] == 1 and result.code in (0, 3), result.data
assert [row["label"] for row in result.rows("contenders")] == [first, second], result.contenders
trials = result.rows("trials")
assert {row["contender"] for row in trials} == {first, second} and any(row["control"] for row in trials), trials
assert all(row["rtt_p50_ns"] > 0 for row in trials if row["valid"]), trials
assert result.rows("verdicts")[0]["note"] in str(result), result
assert "RTT p50" in result.report("markdown")
try:
    deadheat.race("tpc")
except deadheat.DeadheatError as error:
    assert error.code == 2 and "tcp" in str(error), error
else:
    raise AssertionError("a contender that does not exist is refused")
print("python:", result)
