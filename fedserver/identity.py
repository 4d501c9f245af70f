"""Identifies callers, and decides what they may do.

A client's key says which client it is. A certificate also says its name, and what it
may do besides training. A caller at the operator's socket, which only the server's user
can open, is the operator.
"""

import re
from dataclasses import dataclass
from typing import Any

from fedwire.keys import owner_of

from fedcore.hosts import is_loopback
from fedrun.config import FederationConfig
from fedserver.connections import address_of

EVALUATOR, OPERATOR = "evaluator", "operator"  # organizational units of certificates
_OPERATED, _CERTIFIED = "server", "certificate"  # owners of names that have no key
_TCP = ("ipv4:", "ipv6:")
_SOCKET = "unix:"  # how gRPC names a caller that comes by a socket of the file system
_ALTERNATIVE, _COMMON = "x509_subject_alternative_name", "x509_common_name"
_PART = re.compile(rb"(?:[^\\,+]|\\.)+", re.DOTALL)  # of a name as RFC 2253 writes it
Context = Any


@dataclass(frozen=True)
class Named:
    """A client's name, and the owner of the name."""

    name: str
    owner: str
    certified: bool  # the name is this client's, even if another one took it before


class Gate:
    """Decides which caller may do what, by the operator's config."""

    def __init__(self, config: FederationConfig) -> None:
        tls = config.server.tls
        self._certified = tls is not None and tls.client_ca is not None
        self._shared = tls is not None and tls.share_certificates
        self._evaluators = frozenset(config.evaluate.evaluators)

    def certified_name(self, context: Context) -> str | None:
        """Returns the name in the client's own certificate, if it showed one."""
        auth = {} if self._shared else context.auth_context()
        for key in (_ALTERNATIVE, _COMMON):
            for value in auth.get(key, ()):
                return str(value.decode(errors="replace"))
        return None

    def named(self, context: Context, wanted: str, owner: bytes) -> Named:
        """Returns the name of a client that wants a name, and the name's owner.

        Raises:
            ProtocolError: ``owner`` is no key.
        """
        known = owner_of(owner)
        if by_socket(context):
            return Named(wanted, _OPERATED, certified=True)
        certified = self.certified_name(context)
        if certified is not None:
            return Named(certified, _CERTIFIED, certified=True)
        return Named(wanted, known, certified=False)

    def may_evaluate(self, context: Context, name: str) -> bool:
        """Returns whether a client of this name may be an evaluator."""
        return (
            by_socket(context)
            or name in self._evaluators
            or (self._certified and EVALUATOR in roles(context))
        )

    def is_operator(self, context: Context) -> bool:
        """Returns whether a caller is the operator, who may see all of the status."""
        if by_socket(context):
            return True
        if self._certified:
            return OPERATOR in roles(context)
        peer = context.peer()
        return peer.startswith(_TCP) and is_loopback(address_of(peer)[0])

    def operator(self, context: Context) -> str | None:
        """Returns who a caller is that may act on the run; None: it may not.

        That takes more than to see the status: the operator's socket, or a certificate.
        The name is empty for the socket, whose user says it.
        """
        if by_socket(context):
            return ""
        if self._certified and OPERATOR in roles(context):
            return self.certified_name(context) or OPERATOR
        return None

    @property
    def is_closed(self) -> bool:
        """Whether callers need a certificate that says what they may do."""
        return self._certified


def by_socket(context: Context) -> bool:
    """Returns whether a call came by the operator's socket."""
    return bool(context.peer().startswith(_SOCKET))


def roles(context: Context) -> set[str]:
    """Returns the organizational units in the client's certificate."""
    found = set()
    for subject in context.auth_context().get("x509_subject", ()):
        for part in _PART.findall(subject):
            kind, _, value = part.partition(b"=")
            if kind.strip().upper() == b"OU":
                found.add(value.decode(errors="replace"))
    return found
