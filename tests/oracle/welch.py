# SPDX-License-Identifier: Apache-2.0
"""Welch's 95 % intervals by scipy, for tests/unit/test_trace_diff.c: welch.py > tests/unit/welch.inc"""
import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(1)
print("// scipy %s, numpy %s" % (scipy.__version__, np.__version__))
for n, m, spread in ((3, 5, 20), (4, 4, 100), (10, 30, 7), (200, 100, 3)):
    a, b = (np.rint(rng.normal(1000, s, k)) for s, k in ((spread, n), (2 * spread, m)))
    i = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    print("{{%d, %d, %r}, {%d, %d, %r}, %r, %r}," % (n, a.sum(), float((a * a).sum()), m, b.sum(), float((b * b).sum()), float(i.low), float(i.high)))
