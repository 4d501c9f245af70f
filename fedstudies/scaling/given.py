"""What ``fedsim scale`` is told: numbers of workers, a device, and a network."""

from pathlib import Path

from fedcore.errors import ConfigError
from fedcore.planning.paleo import Device, Link
from fedrun.config import FederationConfig
from fedrun.config.yaml_text import checked, mapping_of, text_of
from fedstudies.typed import whole_numbers

_MOST = 999_999  # workers
_MBIT = 125_000  # bytes
_SERVER_MBIT = 1000.0  # where nobody says what the server's link carries
_LINK = ("up", "down", "server")


def workers_of(text: str) -> list[int]:
    """The numbers of workers that ``--workers`` names, in order, with 1.

    Raises:
        ConfigError: one of them is no whole number, 0, or too large.
    """
    example = f"whole numbers from 1 to {_MOST:,}, such as 1,2,4,8"
    return sorted({1, *whole_numbers("--workers", text, example, most=_MOST)})


def read_device(path: Path) -> Device:
    """The device that a YAML file describes.

    Raises:
        ConfigError: the file cannot be read, or a field is wrong.
    """
    if not path.is_file():
        raise ConfigError(
            f"--device {path}: there is no such file; expected a YAML file with keys "
            "such as peak_gflops: 50 (without --device, this machine is measured)"
        )
    text = text_of(path)
    raw = mapping_of(text, str(path), "keys and values such as peak_gflops: 50")
    return checked(Device, raw, str(path), text)


def link_of(text: str | None, config: FederationConfig) -> Link:
    """The network that ``--link`` gives, else that of ``simulate.link``.

    Args:
        text: Mbit/s, as ``up=10,down=50,server=1000``, or one number for all three.
        config: gives what is not said.

    Raises:
        ConfigError: a rate is not above 0, or there is no such direction.
    """
    given = config.simulate.link
    rates = {"up": given.up_mbit, "down": given.down_mbit, "server": _SERVER_MBIT}
    for part in text.split(",") if text is not None else ():
        name, equals, value = part.strip().partition("=")
        if not equals:
            name, value = "", name
        try:
            rate = float(value)
        except ValueError:
            rate = 0.0
        if not 0 < rate < float("inf") or (name and name not in _LINK):
            raise ConfigError(
                f"--link {text}: expected Mbit/s above 0, such as 100 or "
                "up=10,down=50,server=1000"
            )
        rates.update(dict.fromkeys(_LINK, rate) if not name else {name: rate})
    return Link(
        up=_MBIT * rates["up"],
        down=_MBIT * rates["down"],
        server=_MBIT * rates["server"],
        latency=given.latency,
    )
