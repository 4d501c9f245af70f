"""The same app deployed: Flower's SuperLink and SuperNodes, then our processes.

All are real processes on this machine, each with its own interpreter. One deployment
runs after the other, so both use the same machine, though not in the same minute.
"""

from pathlib import Path

from benchmarks.flower import deployed_flower, deployed_ours
from benchmarks.flower.processes import APPS
from fedcore.typing import JSON

APP = "quickstart-torch"
FLOWER = "Flower, `FedAvg`"


def measure(folder: Path) -> JSON:
    """Returns what each way took, and what became of it after SIGKILL."""
    found = {FLOWER: deployed_flower.measure(APP, folder / "flower")}
    print(f"{FLOWER}: {found[FLOWER]}", flush=True)
    for recipe in deployed_ours.RECIPES:
        way = f"here, `{recipe}`"
        found[way] = deployed_ours.measure(recipe, APPS / APP, folder / recipe)
        print(f"{way}: {found[way]}", flush=True)
    return {"app": APP, "ways": found}
