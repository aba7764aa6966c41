"""Run by a Python that has the module: races, and reads the result. With the argument `simulated` the path is in virtual time."""

import json
import os
import sys
import tempfile

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
assert all(row["near_cpu_ns"] >= 0 and "far_cpu_ns" in row for row in trials), trials
assert "RTT p50" in result.report("markdown")
# One answer to whether it is trusted, in the file, the exit code, and in words.
assert result.trusted == (result.code == 0) == (not result.why_not_trusted), result.data
assert ("Not trusted" in str(result)) != result.trusted, str(result)
# A file of before the field: the program finds the same reasons, and a control that is no tie is one.
with tempfile.TemporaryDirectory() as folder:
    old = os.path.join(folder, "old.json")
    data = {name: value for name, value in result.data.items() if name not in ("trusted", "why_not_trusted")}
    data["control"] = {**data["control"], "trusted": False, "note": "its copies differ"}
    with open(old, "w", encoding="utf-8") as out:
        json.dump(data, out)
    doubtful = deadheat.load(old)
assert not doubtful.trusted and "Not trusted: its copies differ" in str(doubtful), doubtful
try:
    deadheat.race("tpc")
except deadheat.DeadheatError as error:
    assert error.code == 2 and "tcp" in str(error), error
else:
    raise AssertionError("a contender that does not exist is refused")
print("python:", result)
