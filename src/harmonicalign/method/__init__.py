"""The default method: problem, hypotheses, alternation, choice; then one space for all datasets.

It knows `paper`, whose stages it starts from, and `evidence`, by which it decides. Every number that decides
its behaviour is in `harmonicalign.method.config`.
"""
