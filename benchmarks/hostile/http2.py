"""An HTTP/2 client that does less than it should: frames by hand over a socket.

RFC 9113, and header blocks of RFC 7541 without compression. It grants the server no
bytes of a stream unless told to, and may fall silent at any time.
"""

import socket
import ssl
import struct
from pathlib import Path

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, WINDOW = 0, 1, 3, 4, 6, 8
_END_STREAM, _END_HEADERS, _ACK = 0x1, 0x4, 0x1
_INITIAL_WINDOW = 4  # the setting's number
_MUCH = struct.pack(">I", 1 << 30)  # bytes that all streams may bring together


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    """One frame."""
    size = struct.pack(">I", len(body))[1:]
    return size + bytes([kind, flags]) + struct.pack(">I", stream) + body


def message(data: bytes) -> bytes:
    """A message as gRPC frames it."""
    return b"\0" + struct.pack(">I", len(data)) + data


class Raw:
    """A connection on which calls are begun, and little else is done."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        window: int = 0,
    ) -> None:
        """``window``: bytes that the server may send on each stream, of many in all."""
        self._authority = f"{host}:{port}".encode()
        self._scheme = b"http" if tls is None else b"https"
        self.socket = socket.create_connection((host, port), timeout=20)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        settings = struct.pack(">HI", _INITIAL_WINDOW, window)
        self.socket.sendall(
            _PREFACE + frame(SETTINGS, 0, 0, settings) + frame(WINDOW, 0, 0, _MUCH)
        )
        self._stream = -1
        self._unread = b""

    def fileno(self) -> int:
        """For selectors."""
        return self.socket.fileno()

    def close(self) -> None:
        """Hangs up."""
        self.socket.close()

    def begin(self, method: str, *bodies: bytes, ends: bool = True) -> int:
        """Begins a call; returns its stream."""
        self._stream += 2
        block = self._headers(method)
        out = [frame(HEADERS, _END_HEADERS, self._stream, block)]
        out += [frame(DATA, 0, self._stream, message(body)) for body in bodies]
        if ends:
            out.append(frame(DATA, _END_STREAM, self._stream))
        self.socket.sendall(b"".join(out))
        return self._stream

    def say(self, stream: int, body: bytes) -> None:
        """One more message of a call."""
        self.socket.sendall(frame(DATA, 0, stream, message(body)))

    def reset(self, stream: int) -> None:
        """Cancels a call."""
        self.socket.sendall(frame(RESET, 0, stream, struct.pack(">I", 8)))

    def ping(self) -> None:
        """Asks whether the server is there."""
        self.socket.sendall(frame(PING, 0, 0, bytes(8)))

    def misbehave(self) -> None:
        """Says what no connection may, so that the server ends its direction."""
        self.socket.sendall(frame(SETTINGS, 0, 0, b"not 6"))

    def read(self) -> list[tuple[int, int]] | None:
        """The kinds and streams of the frames that have come; None at the end.

        Settings and pings are acknowledged, and what was read may be sent again.
        """
        try:
            data = self.socket.recv(1 << 16)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return []
        except OSError:
            return None
        if not data:
            return None
        self._unread += data
        found, granted = [], 0
        while len(self._unread) >= 9:
            size = int.from_bytes(self._unread[:3], "big")
            if len(self._unread) < 9 + size:
                break
            kind, flags = self._unread[3], self._unread[4]
            stream = int.from_bytes(self._unread[5:9], "big")
            body, self._unread = self._unread[9 : 9 + size], self._unread[9 + size :]
            if kind in (SETTINGS, PING) and not flags & _ACK:
                answer = b"" if kind == SETTINGS else body
                self.socket.sendall(frame(kind, _ACK, 0, answer))
            granted += size if kind == DATA else 0
            found.append((kind, stream))
        if granted:
            self.socket.sendall(frame(WINDOW, 0, 0, struct.pack(">I", granted)))
        return found

    def _headers(self, method: str) -> bytes:
        fields = (
            (b":method", b"POST"),
            (b":scheme", self._scheme),
            (b":path", method.encode()),
            (b":authority", self._authority),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
        )
        return b"".join(b"\0" + _string(name) + _string(text) for name, text in fields)


def _string(text: bytes) -> bytes:
    assert len(text) < 127
    return bytes([len(text)]) + text


def trusting(
    ca: Path | None, certificate: Path | None, key: Path | None
) -> ssl.SSLContext | None:
    """TLS as gRPC wants it; None for plain text."""
    if ca is None:
        return None
    context = ssl.create_default_context(cafile=str(ca))
    context.set_alpn_protocols(["h2"])
    if certificate is not None:
        context.load_cert_chain(str(certificate), str(key))
    return context
