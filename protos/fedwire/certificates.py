"""Checks a certificate and its key, since gRPC does not say what is wrong with them."""

import ssl
from os import PathLike

from fedcore.errors import ConfigError


def require_pair(
    certificate: PathLike[str], key: PathLike[str] | None, names: str
) -> None:
    """Checks that these files are a certificate and its key.

    Raises:
        ConfigError: they are not; the message calls them ``names``.
    """
    try:
        # With an empty password OpenSSL does not ask the user for one.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        raise ConfigError(
            f"{names} are not a certificate and its key: {error.reason or error}"
        ) from error
