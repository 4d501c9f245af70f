"""All numbers of a comparison as JSON, for programs."""

from typing import Any

from fedrun.cli.plain_json import to_json
from fedstudies.codecs.comparison import Comparison
from fedstudies.codecs.measure import last_means
from fedstudies.codecs.pairs import plain


def as_json(comparison: Comparison) -> str:
    """The comparison as a JSON object; a number that was not measured is null."""
    value = {
        "app": comparison.app,
        "values": comparison.dim,
        "versions": comparison.versions,
        "seeds": comparison.seeds,
        "tolerance": comparison.tolerance,
        "metric": comparison.metric,
        "lower_is_better": comparison.lower_is_better,
        "pairs_asked": comparison.asked,
        "recommended": comparison.taken,
        "pairs": [_pair(comparison, i) for i in range(len(comparison.rows))],
    }
    return to_json(value, indent=1) + "\n"


def _pair(comparison: Comparison, place: int) -> dict[str, Any]:
    row = comparison.rows[place]
    up, down = row.times
    return {
        "uplink": plain(row.pair.uplink),
        "downlink": plain(row.pair.downlink),
        "names": list(row.pair.names),
        "value": comparison.values[place],
        "standard_error": comparison.errors[place],
        "bytes_up": row.bytes_up,
        "bytes_down": row.bytes_down,
        "times_fewer": comparison.fewer(row),
        "milliseconds": {"up": up._asdict(), "down": down._asdict()},
        "on_front": comparison.front[place],
        "recommended": place == comparison.taken,
        "runs": [
            {
                "seed": trial.seed,
                "metrics": last_means(trial),
                "updates": trial.decided,
                "bytes_up": trial.bytes_up,
                "bytes_down": trial.bytes_down,
                "seconds": trial.seconds,
                "broken": trial.broken,
                "evaluations": trial.evaluations(),
            }
            for trial in row.trials
        ],
    }
