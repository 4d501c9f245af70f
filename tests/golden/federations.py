"""The federations whose results are saved: each role, each codec, most of the fates."""

from typing import Any

SLOW: dict[str, Any] = {"speed": {"kind": "log_normal", "sigma": 1.0}}
LOSSY: dict[str, Any] = {
    **SLOW,
    "dropout": 0.2,
    "upload_loss": 0.2,
    "ack_loss": 0.2,
    "away_seconds": 1.0,
}


def _remembered(**codec: Any) -> dict[str, Any]:
    return {"kind": "error_feedback", "inner": codec}


_CODECS: dict[str, dict[str, Any]] = {
    "cast": {},
    "cyclic": {},
    "dead_zone": {},
    "gaia": {"threshold": 0.2},
    "gaussian_k": {"ratio": 0.05},
    "low_rank": {"rank": 1},
    "natural": {},
    "per_tensor": {},
    "qsgd": {"bits": 4, "bucket": 64},
    "random_k": {"ratio": 0.1},
    "rotation": {},
    "semi_discrete": {},
    "sign_l1": {},
    "stc": {"ratio": 0.05},
    "top_k": {"ratio": 0.05},
    "uniform": {"bits": 4},
}
ROUNDED = {
    "norms": "sums of squares",
    "codec_low_rank": "matrix products",
    "codec_semi_discrete": "matrix products",
}
"""What a library rounds as it likes: these come to nearly the same everywhere.

All others take elementwise arithmetic, sums in a fixed order, whole numbers, and powers
and exponentials in double precision that float32 then rounds.
"""
FEDERATIONS: dict[str, dict[str, Any]] = {
    "cohorts": {
        "algorithm": {
            "kind": "fed_avg",
            "buffer": 4,
            "over_selection": 1.5,
            "deadline": 3.0,
            "client": {
                "kind": "local_sgd",
                "epochs": 2,
                "momentum": 0.9,
                "keep_momentum": True,
                "lr": 0.02,
            },
        },
        "simulate": LOSSY,
    },
    "buffer": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "staleness_limit": 3,
            "client": {
                "kind": "fed_prox",
                "schedule": {"kind": "linear", "after": 2, "until": 9},
            },
        },
        "simulate": LOSSY,
    },
    "latecomer": {
        "algorithm": {"kind": "latecomer", "buffer": 3},
        "simulate": LOSSY,
    },
    "fed_async": {"algorithm": {"kind": "fed_async"}, "simulate": SLOW},
    "fleet": {
        "algorithm": {
            "kind": "fleet",
            "buffer": 2,
            "controllers": [{"kind": "i_prof", "seconds": 0.01, "each": "client"}],
            "update_filter": {"kind": "fleet_controller", "size_percentile": 20},
        },
        "simulate": SLOW,
    },
    "adam": {
        "algorithm": {
            "kind": "fed_avg",
            "buffer": 4,
            "server": {"kind": "adam", "lr": 0.02},
            "client": {
                "kind": "local_adam",
                "lr": 0.002,
                "eps": 0.001,
                "keep_moments": True,
                "schedule": {"kind": "warm_up", "versions": 4},
            },
        },
        "simulate": SLOW,
    },
    "double_compression": {
        "algorithm": {"kind": "double_compression", "buffer": 6},
    },
    "norms": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "staleness_limit": 1,
            "client": {"kind": "local_sgd", "steps": 3, "clip_norm": 0.5},
            "uplink": {**_remembered(kind="top_k"), "cap": 0.5},
        },
        "simulate": LOSSY,
    },
    "scaffold": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "staleness": {"kind": "constant"},
            "staleness_limit": 4,
            "client": {"kind": "scaffold", "steps": 3},
            "uplink": _remembered(kind="top_k"),
            "downlink": {"kind": "top_k", "ratio": 0.1},
        },
        "simulate": SLOW,
    },
    "ef21": {
        "algorithm": {
            "kind": "ef21",
            "buffer": 4,
            "server": {"kind": "ef21", "share": 0.33},
        },
        "simulate": {"upload_loss": 0.2, "away_seconds": 1.0},
    },
    "fed_dyn": {
        "algorithm": {
            "kind": "fed_dyn",
            "buffer": 3,
            "client": {"kind": "fed_dyn", "steps": 3},
        },
        "simulate": SLOW,
    },
    "fed_nova": {
        "algorithm": {
            "kind": "fed_nova",
            "buffer": 3,
            "synchronous": False,
            "staleness_limit": 4,
            "client": {
                "kind": "local_sgd",
                "epochs": 1,
                "overrides": [{"clients": "client-[0-3]", "steps": 3, "lr": 0.05}],
            },
        },
        "simulate": SLOW,
    },
    "mifa": {"algorithm": {"kind": "mifa", "buffer": 3}, "simulate": LOSSY},
    "ca2fl": {"algorithm": {"kind": "ca2fl", "buffer": 3}, "simulate": LOSSY},
    "trimmed_mean": {
        "algorithm": {
            "kind": "fed_avg",
            "buffer": 5,
            "aggregator": {"kind": "trimmed_mean"},
        },
    },
    "ds_sync": {
        "algorithm": {
            "kind": "ds_sync",
            "buffer": 6,
            "deadline": 5.0,
            "client": {"kind": "ds_sync", "groups": 3, "steps": 3},
        },
        "simulate": SLOW,
    },
    "gaia": {
        "algorithm": {
            "kind": "gaia",
            "buffer": 3,
            "ahead": 1,
            "uplink": {**_remembered(kind="top_k", ratio=0.1), "own_view": True},
            "downlink": {"kind": "identity"},
        },
        "simulate": LOSSY,
    },
    "oort": {
        "algorithm": {
            "kind": "oort",
            "buffer": 3,
            "selection": {"kind": "oort", "pacer_step": 1},
        },
        "simulate": SLOW,
    },
    "bandwidth": {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 3,
            "uplink": _remembered(kind="top_k", ratio=0.2),
            "controllers": [{"kind": "bandwidth", "upload_time": 0.5}],
        },
        "simulate": {
            "link": {"up_mbit": 0.0005, "spread": {"kind": "log_normal", "sigma": 1.0}}
        },
    },
    **{
        f"codec_{kind}": {
            "algorithm": {
                "kind": "fed_buff",
                "buffer": 3,
                "uplink": _remembered(kind=kind, **settings),
                "downlink": {"kind": kind, **settings},
            },
            "simulate": SLOW,
        }
        for kind, settings in _CODECS.items()
    },
}
