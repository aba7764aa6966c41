"""Makes eprocess_golden.json: e-processes and confidence sequences from their definitions.

Nothing here is shared with the crate: ranks are counted, and the interval is found by trying every gap between Walsh
averages. Python 3.9 and later, nothing else:

    python3 eprocess_golden.py > eprocess_golden.json
"""

import json
import math
import random

STAKES = [1, 3 / 4, 1 / 2, 1 / 3, 1 / 4, 1 / 6, 1 / 8, 1 / 16, 1 / 32]


def evidence(diffs, shift, side):
    moved = [(d - shift) * side for d in diffs]
    total = 0.0
    for kind in ("sign", "rank"):
        for stake in STAKES:
            fortune = 1.0
            for i, d in enumerate(moved):
                sign = (d > 0) - (d < 0)
                below = sum(abs(e) < abs(d) for e in moved[: i + 1])
                equal = sum(abs(e) == abs(d) for e in moved[: i + 1])
                share = (below + (equal + 1) / 2) / (i + 1)
                fortune *= 1 + stake * sign * (share if kind == "rank" else 1)
            total += fortune
    return total / (2 * len(STAKES))


def interval(diffs, level):
    bound = 2 / level
    averages = sorted((a + b) / 2 for i, a in enumerate(diffs) for b in diffs[i:])
    middle = len(averages)
    point = (averages[(middle - 1) // 2] + averages[middle // 2]) / 2

    def stands(shift):
        return evidence(diffs, shift, 1) < bound and evidence(diffs, shift, -1) < bound

    if stands(averages[0] - 1) or stands(averages[-1] + 1):
        return None
    gaps = [(a, b) for a, b in zip(averages, averages[1:]) if a < b and stands((a + b) / 2)]
    ends = [point] + [end for gap in gaps for end in gap]
    return [min(ends), max(ends)]


def main():
    rng = random.Random(7)
    cases = []
    for n, grid, centre in [(1, 64, 1), (2, 64, 0), (5, 4, 1), (9, 64, 2), (14, 64, 1), (14, 2, 1), (24, 64, 0.5), (30, 8, 0.25)]:
        d = [round((centre + rng.gauss(0, 1)) * grid) / grid for _ in range(n)]
        case = {"d": d, "evidence": [], "interval": {}}
        for shift in (0.0, 0.5, -0.25):
            for name, side in (("above", 1), ("below", -1)):
                value = evidence(d, shift, side)
                case["evidence"].append([shift, name, math.log(value)])
        for level in (0.05, 0.01):
            case["interval"][str(level)] = interval(d, level)
        cases.append(case)
    print(json.dumps(cases, indent=1))


main()
