"""Exit statuses: whose fault it was, as sysexits.h numbers it."""

import os

from fedcore.errors import (
    ConfigError,
    JournalError,
    LatecomerError,
    PayloadError,
    ProtocolError,
    RefusedError,
    StateError,
    UnavailableError,
    UserCodeError,
    WorkloadError,
)

_STATUSES: tuple[tuple[type[LatecomerError], int], ...] = (
    (ConfigError, os.EX_CONFIG),  # 78: the settings
    (UserCodeError, os.EX_SOFTWARE),  # 70: the user's functions raised
    (WorkloadError, os.EX_DATAERR),  # 65: the user's file, model or data
    (PayloadError, os.EX_DATAERR),
    (RefusedError, os.EX_NOPERM),  # 77: the server will not have this client
    (UnavailableError, os.EX_UNAVAILABLE),  # 69: nobody answers
    (ProtocolError, os.EX_PROTOCOL),  # 76: the other side breaks the protocol
    (StateError, os.EX_IOERR),  # 74: the state directory
    (JournalError, os.EX_IOERR),  # 74: the journal
    (LatecomerError, os.EX_SOFTWARE),  # 70
)


def exit_status(error: LatecomerError) -> int:
    """The status with which a command ends after this error."""
    return next(status for kind, status in _STATUSES if isinstance(error, kind))
