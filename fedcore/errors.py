"""Every error of the platform, and whose fault it is.

::

    LatecomerError
    ├── ConfigError          the operator's settings
    ├── WorkloadError        the user's file: its functions or its data
    │   ├── UserCodeError    the user's functions raised
    │   ├── ModelError       the user's model cannot be federated
    │   │   └── NotStackableError  many of it cannot be computed at once
    │   └── SpecMismatchError  two models which should be the same are not
    ├── StoppedError         training that nobody waits for was not finished
    ├── NotDecodableError    too few workers of a coded computation have answered
    ├── PayloadError         a peer's bytes do not describe a vector
    ├── ProtocolError        a peer's message breaks the protocol
    │   ├── RefusedError     the server will not have this client
    │   └── UnavailableError the server cannot be reached, or not now
    │       └── OtherRunError  a server is there, and has another run
    ├── HandlingError        a call that raised in the server, which goes on
    ├── StateError           the client's state directory
    └── JournalError         the server's disk
        ├── CorruptJournalError   records are damaged, or missing
        ├── JournalVersionError   written by a newer program
        └── DiskError             the disk is full or fails, and may work again
"""

IMPOSSIBLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What code raises on values that no program of ours has written."""


class LatecomerError(Exception):
    """Base of all errors that are raised on purpose."""


class ConfigError(LatecomerError):
    """A setting is wrong; the message names the field and what is allowed."""


class WorkloadError(LatecomerError):
    """The user's file, functions or data cannot be used."""


class UserCodeError(WorkloadError):
    """The user's code raised; the original error is the cause."""


class DivergedError(UserCodeError):
    """A client's updates are not finite."""


class ModelError(WorkloadError):
    """The user's model cannot be federated; the message names the layer."""


class NotStackableError(ModelError):
    """Many such models cannot be computed at once; the message says why."""


class SpecMismatchError(WorkloadError):
    """Two models differ; the message names the first differing tensor."""


class StoppedError(LatecomerError):
    """Training that nobody waits for any more was not finished."""


class NotDecodableError(LatecomerError):
    """The workers that answered do not determine the coded result."""


class PayloadError(LatecomerError):
    """Bytes that should describe a vector do not."""


class ProtocolError(LatecomerError):
    """A message that the protocol does not allow."""


class RefusedError(ProtocolError):
    """The server answered that it will not have this client."""


class UnavailableError(ProtocolError):
    """The server cannot be reached, or cannot answer now."""


class HandlingError(LatecomerError):
    """The server could not handle a call; it is as if it had never come."""


class OtherRunError(UnavailableError):
    """The server has another run than the client's state: its own may come back."""


class StateError(LatecomerError):
    """The client's state directory is in use, damaged, or of another run."""


class JournalError(LatecomerError):
    """The server's journal cannot be read or written."""


class CorruptJournalError(JournalError):
    """Records are damaged or missing; the message says which, and what to do."""


class JournalVersionError(JournalError):
    """The journal was written by a newer program."""


class DiskError(JournalError):
    """The disk is full or fails: what was to be written can be tried again."""
