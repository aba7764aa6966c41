"""The result of a race: its file as Python values, and as tables."""

import gzip
import json
import os
import tempfile
from typing import Any, Dict, List, Optional, Union

from .program import run

FORMAT = 1

# Exit codes of a report: the race is trusted, or not.
SHOWN = (0, 3)

# What a trial cost each end: CPU time of its process, in all, in user space and in the kernel, and its calls of the kernel.
COSTS = ("cpu_ns", "user_ns", "system_ns", "syscalls")


def load(file: Union[str, "os.PathLike[str]"]) -> "Result":
    """Reads a result file, also one that is packed (.json.gz).

    Raises ValueError if it is no result of a race, or of another format than 1.
    """
    opened = gzip.open if os.fspath(file).endswith(".gz") else open
    with opened(file, "rt", encoding="utf-8") as text:
        data = json.load(text)
    if not isinstance(data, dict) or data.get("format") != FORMAT or "contenders" not in data:
        raise ValueError(f"{os.fspath(file)} is no result of a race in format {FORMAT}")
    if "trusted" not in data:
        # An older file: the program knows what speaks against it.
        data = json.loads(run(["report", os.fspath(file), "--format", "json"], accepted=SHOWN).stdout)
    return Result(data)


class Result:
    """A race that ran.

    `data` is the whole file; `code` the exit code and `text` the answer that the program printed, where `deadheat.race` ran it.
    """

    def __init__(self, data: Dict[str, Any], code: Optional[int] = None, text: Optional[str] = None) -> None:
        self.data = data
        self.code = code
        self.text = text

    @property
    def trusted(self) -> bool:
        """Whether the race is to be trusted, as the exit code 3 says that it is not."""
        return self.data["trusted"]

    @property
    def why_not_trusted(self) -> List[str]:
        """The reasons why it is not to be trusted; none if it is."""
        return self.data.get("why_not_trusted", [])

    @property
    def contenders(self) -> List[Dict[str, Any]]:
        return self.data["contenders"]

    @property
    def verdicts(self) -> List[Dict[str, Any]]:
        """The verdicts, one for each claim; `note` is the sentence."""
        return self.data.get("verdicts", [])

    @property
    def warnings(self) -> List[Dict[str, Any]]:
        return self.data.get("warnings", [])

    def label(self, contender: Optional[int]) -> Optional[str]:
        """The name of a contender by its number."""
        return None if contender is None else self.contenders[contender]["label"]

    def rows(self, table: str = "trials") -> List[Dict[str, Any]]:
        """The rows of `trials`, `summary`, `verdicts` or `contenders`, with contenders by name and one column for each metric.

        Trials include those of the hidden copy (`control`) and those that do not count (`valid` is False).
        """
        kinds = {"trials": self._trial, "summary": self._summed, "verdicts": self._verdict, "contenders": self._contender}
        if table not in kinds:
            raise ValueError(f"no table {table!r}; there are {', '.join(kinds)}")
        return [kinds[table](row) for row in self.data.get(table, [])]

    def _trial(self, trial: Dict[str, Any]) -> Dict[str, Any]:
        row = {name: trial.get(name) for name in ("block", "order", "valid", "why_invalid", "started_ms", "took_ns")}
        row["contender"] = self.label(trial["contender"])
        row["control"] = trial.get("control", False)
        for end, cost in (("near", trial.get("cost")), ("far", trial.get("far_cost"))):
            row.update({f"{end}_{name}": (cost or {}).get(name) for name in COSTS})
        row.update(trial.get("metrics", {}))
        return row

    def _summed(self, row: Dict[str, Any]) -> Dict[str, Any]:
        names = ("metric", "estimate", "low", "high", "trials")
        return {"contender": self.label(row["contender"]), **{name: row.get(name) for name in names}}

    def _verdict(self, verdict: Dict[str, Any]) -> Dict[str, Any]:
        names = ("metric", "outcome", "margin", "confidence", "blocks", "note")
        row = {name: verdict.get(name) for name in names}
        row.update({name: self.label(verdict.get(name)) for name in ("a", "b", "ahead")})
        ratio = verdict.get("ratio") or {}
        return {**row, "ratio": ratio.get("point"), "ratio_low": ratio.get("low"), "ratio_high": ratio.get("high")}

    def _contender(self, contender: Dict[str, Any]) -> Dict[str, Any]:
        return {name: contender.get(name) for name in ("id", "label", "spec", "transport", "implementation", "floor")}

    def frame(self, table: str = "trials", library: str = "pandas") -> Any:
        """The rows of a table as a data frame of pandas or Polars, which has to be installed."""
        rows = self.rows(table)
        if library == "pandas":
            import pandas

            return pandas.DataFrame(rows)
        if library == "polars":
            import polars

            return polars.DataFrame(rows, infer_schema_length=None)
        raise ValueError(f"no library {library!r}; there are pandas and polars")

    def report(self, format: str = "terminal") -> str:
        """The report in any format of `deadheat report`."""
        with tempfile.TemporaryDirectory(prefix="deadheat-") as folder:
            file = os.path.join(folder, "race.json")
            with open(file, "w", encoding="utf-8") as out:
                json.dump(self.data, out)
            return run(["report", file, "--format", format], accepted=SHOWN).stdout

    def __str__(self) -> str:
        doubts = [f"Not trusted: {why}" for why in self.why_not_trusted]
        return "\n".join(doubts + [verdict["note"] for verdict in self.verdicts]) or "no verdict"

    def __repr__(self) -> str:
        return f"<deadheat.Result of {', '.join(row['label'] for row in self.contenders)}: {self}>"
