"""Generates variance_golden.json. Run with NumPy 2.4, statsmodels 0.15 and pandas:
python variance_golden.py > variance_golden.json

Expressions, for every case (y is the observed logarithm):
  fit(columns)   the sum of squares of y explained by dummy columns: numpy.linalg.lstsq with an
                 intercept, total about the mean less residual; its rank by matrix_rank
  blocks         fit(blocks)
  factor         the mean over all k! orders of fit(blocks + before + factor) - fit(blocks + before)
  interactions   fit(blocks + cells) - fit(blocks + all factors)
  residual       total - fit(blocks + cells)
  raw            each over the total
  share          (its sum of squares - its degrees of freedom * MSE) / total, not below 0,
                 MSE = residual / its degrees of freedom, those of a factor averaged like its sum;
                 the residual's is 1 less the others
  shifts         numpy.median of the Walsh averages of the blocks' mean matched differences
For the complete case statsmodels.stats.anova.anova_lm(ols("y ~ C(block) + C(f0) * C(f1) * C(f2)"))
has to give the same sums, or the script fails.
"""

import itertools
import json

import numpy as np
import pandas as pd
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

rng = np.random.default_rng(20261120)


def dummies(keys):
    known = sorted(set(keys))
    return np.array([[1.0 if key == k else 0.0 for k in known] for key in keys])


def split(observations, k):
    y = np.array([o["value"] for o in observations])
    total = float(((y - y.mean()) ** 2).sum())

    def fit(columns):
        x = np.hstack([np.ones((len(y), 1))] + columns)
        beta = np.linalg.lstsq(x, y, rcond=None)[0]
        return np.array([total - ((y - x @ beta) ** 2).sum(), np.linalg.matrix_rank(x) - 1])

    blocks = dummies([o["block"] for o in observations])
    factors = [dummies([o["levels"][f] for o in observations]) for f in range(k)]
    cells = dummies([tuple(o["levels"]) for o in observations])
    parts = np.zeros((k, 2))
    orders = list(itertools.permutations(range(k)))
    for order in orders:
        before = [blocks]
        for f in order:
            parts[f] += (fit(before + [factors[f]]) - fit(before)) / len(orders)
            before = before + [factors[f]]
    everything = fit([blocks, cells])
    additive = fit([blocks] + factors)
    rows = list(parts) + [everything - additive, fit([blocks])]
    residual = np.array([total, len(y) - 1]) - everything
    mse = residual[0] / residual[1]
    shares = [max(0.0, (ss - df * mse) / total) for ss, df in rows]
    raw = [ss / total for ss, _ in rows] + [residual[0] / total]
    return [float(v) for v in raw], [float(v) for v in shares + [1.0 - sum(shares)]], rows


def shifts(observations, factor):
    groups = {}
    for o in observations:
        others = tuple(l for f, l in enumerate(o["levels"]) if f != factor)
        groups.setdefault((o["block"], others), {})[o["levels"][factor]] = o["value"]
    found = {}
    for (block, _), group in groups.items():
        for level, value in group.items():
            if level and 0 in group:
                found.setdefault(level, {}).setdefault(block, []).append(value - group[0])
    result = {}
    for level, blocks in sorted(found.items()):
        d = [np.mean(v) for v in blocks.values()]
        walsh = [(d[i] + d[j]) / 2 for i in range(len(d)) for j in range(i, len(d))]
        result[level] = float(np.median(walsh))
    return result


def data(sizes, blocks, effects, sd, drop):
    observations = []
    for block in range(blocks):
        drift = rng.normal() * 0.2
        for levels in itertools.product(*[range(size) for size in sizes]):
            if drop(block, levels):
                continue
            value = 3.0 + drift + rng.normal() * sd
            value += sum(effect * level for effect, level in zip(effects, levels))
            value += 0.3 if levels[0] == 1 and levels[-1] == 1 else 0.0
            observations.append({"block": block, "levels": list(levels), "value": round(value, 6)})
    return observations


def case(name, sizes, blocks, effects, sd, drop=lambda block, levels: False):
    observations = data(sizes, blocks, effects, sd, drop)
    raw, shares, rows = split(observations, len(sizes))
    if name == "complete":
        frame = pd.DataFrame(
            [{"y": o["value"], "block": o["block"], **{f"f{i}": l for i, l in enumerate(o["levels"])}}
             for o in observations])
        table = anova_lm(ols("y ~ C(block) + C(f0) * C(f1) * C(f2)", frame).fit())
        mains = table.loc[["C(f0)", "C(f1)", "C(f2)"], "sum_sq"]
        assert np.allclose(mains, [row[0] for row in rows[:3]], rtol=1e-10)
        assert np.isclose(table.loc["C(block)", "sum_sq"], rows[4][0], rtol=1e-10)
        mixed = [name for name in table.index if ":" in name]
        assert np.isclose(table.loc[mixed, "sum_sq"].sum(), rows[3][0], rtol=1e-8)
    return {"name": name, "factors": len(sizes), "observations": observations, "raw": raw,
            "share": shares, "shifts": [shifts(observations, f) for f in range(len(sizes))]}


some = rng.random(10_000)
print(json.dumps([
    case("complete", (3, 3, 2), 7, (0.8, 0.3, 0.05), 0.1),
    case("infeasible cells", (3, 3, 2), 6, (0.5, 0.4, 0.3), 0.2,
         lambda b, l: l in [(0, 2, 1), (2, 0, 0), (2, 0, 1), (1, 2, 0)]),
    case("trials missing", (2, 4, 2), 9, (0.5, 0.1, 0.0), 0.3,
         lambda b, l: some[b * 100 + l[0] * 50 + l[1] * 10 + l[2]] < 0.3),
    # Level 2 of the first factor runs only with level 1 of the second: partly one and the same.
    case("confounded", (3, 2), 6, (0.5, 0.4), 0.2, lambda b, l: (l[0] == 2) != (l[1] == 1)),
    case("one factor", (4,), 5, (0.2,), 0.1),
], indent=None, separators=(",", ":")))
