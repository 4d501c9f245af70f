"""Studies of a federation: each is a command of ``fedsim`` and a Python function.

:mod:`fedstudies.frame` says what a study is, and makes all else of it.
"""

STUDIES = {
    "codecs": "fedstudies.codecs.study:Codecs",
    "sweep": "fedstudies.sweep.study:Sweep",
    "compare": "fedstudies.compare.study:Compare",
    "staleness": "fedstudies.staleness.study:Staleness",
    "influence": "fedstudies.influence.study:Influence",
    "plan": "fedstudies.plan.study:Plan",
    "predict": "fedstudies.predict.study:Predict",
    "scale": "fedstudies.scaling.study:Scale",
    "coding": "fedstudies.coding:Coding",
}
"""Where the class of each study is, in the order of use."""
