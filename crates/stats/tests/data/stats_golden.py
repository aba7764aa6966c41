"""Generates stats_golden.json. Run with SciPy 1.17.1 and NumPy: python stats_golden.py > stats_golden.json

Expressions, for every case:
  signed_rank   scipy.stats.wilcoxon(d - shift, zero_method="pratt", alternative=..., method=m)
                m = "exact" without ties and zeros up to n = 60;
                m = PermutationMethod(n_resamples=2**n), all sign patterns, with ties or zeros;
                m = "asymptotic", correction=True, beyond n = 60
  hl            numpy.median of all (d_i + d_j) / 2, i <= j
  low, high     by brute force from the distribution of scipy.stats.wilcoxon's exact p-value:
                the Walsh averages next to which the two-sided p-value crosses 1 - confidence
  mann_whitney  scipy.stats.mannwhitneyu(a, b, method="exact" or "asymptotic", use_continuity=True)
  shift         numpy.median of all a_i - b_j
"""

import json
import numpy as np
import scipy
from scipy.stats import PermutationMethod, mannwhitneyu, wilcoxon

rng = np.random.default_rng(20240607)
TAILS = {"two": "two-sided", "greater": "greater", "less": "less"}


def walsh(d):
    return np.sort([(d[i] + d[j]) / 2 for i in range(len(d)) for j in range(i, len(d))])


def signed_rank_p(d, shift, alternative):
    moved = np.asarray(d) - shift
    tied = len(np.unique(np.abs(moved))) < len(moved) or np.any(moved == 0)
    if len(d) > 60:
        method = "asymptotic"
    elif tied:
        method = PermutationMethod(n_resamples=2 ** len(d))
    else:
        method = "exact"
    return float(wilcoxon(moved, zero_method="pratt", correction=len(d) > 60, alternative=alternative, method=method).pvalue)


def bounds(candidates, p_at, confidence):
    """The lowest and highest candidate with an accepted neighbourhood on its inner side."""
    alpha = 1 - confidence
    middles = (candidates[1:] + candidates[:-1]) / 2
    accepted = [i for i, m in enumerate(middles) if p_at(m) > alpha * (1 + 1e-9)]
    outside = p_at(candidates[0] - 1) <= alpha * (1 + 1e-9)
    return [float(candidates[accepted[0]]), float(candidates[accepted[-1] + 1])] if outside else None


def signed_rank_cases():
    samples = [(rng.normal(0.3, 1, n).round(6), 0.0) for n in (3, 5, 6, 8, 12, 20, 35, 60)]
    samples += [(rng.standard_t(3, n).round(6), 0.125) for n in (7, 12, 30)]
    samples += [(rng.integers(-3, 6, n).astype(float), 0.0) for n in (6, 9, 12, 14)]
    samples += [(rng.integers(-3, 6, n).astype(float), 1.0) for n in (8, 13)]
    samples += [(rng.normal(0.1, 1, n).round(6), 0.0) for n in (61, 80)]
    samples += [(rng.integers(-8, 10, 70).astype(float), 0.0)]
    for d, shift in samples:
        case = {"d": d.tolist(), "shift": shift, "hl": float(np.median(walsh(d)))}
        case["p"] = {k: signed_rank_p(d, shift, v) for k, v in TAILS.items()}
        if len(np.unique(walsh(d))) == len(d) * (len(d) + 1) // 2 and len(d) <= 35:
            case["interval"] = {str(c): bounds(walsh(d), lambda s: signed_rank_p(d, s, "two-sided"), c) for c in (0.8, 0.95, 0.99)}
        yield case


def mann_whitney_cases():
    samples = [(rng.normal(0.5, 1, n).round(6), rng.normal(0, 1, m).round(6)) for n, m in ((1, 4), (3, 3), (4, 4), (5, 8), (12, 12), (20, 7), (40, 40))]
    samples += [(rng.integers(0, 6, n).astype(float), rng.integers(1, 7, m).astype(float)) for n, m in ((4, 5), (12, 12), (30, 50))]
    samples += [(rng.normal(0.2, 1, 50).round(6), rng.normal(0, 1, 60).round(6))]
    for a, b in samples:
        tied = len(np.unique(np.concatenate([a, b]))) < len(a) + len(b)
        method = "exact" if len(a) * len(b) <= 1600 and not tied else "asymptotic"
        p = lambda shift: float(mannwhitneyu(a - shift, b, method=method, use_continuity=True).pvalue)
        differences = np.sort(np.subtract.outer(a, b).ravel())
        case = {"a": a.tolist(), "b": b.tolist(), "shift": float(np.median(differences)), "p": p(0.0)}
        if not tied and len(a) * len(b) <= 200:
            case["interval"] = {str(c): bounds(differences, p, c) for c in (0.8, 0.95)}
        yield case


if __name__ == "__main__":
    print(json.dumps({"scipy": scipy.__version__, "numpy": np.__version__, "signed_rank": list(signed_rank_cases()), "mann_whitney": list(mann_whitney_cases())}, indent=1))
