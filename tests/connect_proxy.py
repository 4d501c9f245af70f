"""An HTTP proxy of this machine, which forwards what comes after ``CONNECT``."""

import asyncio

from tools.counting_proxy import CountingProxy


class ConnectProxy(CountingProxy):
    """Tunnels every host to one server, whatever its name.

    Attributes:
        asked: the ``HOST:PORT`` of each tunnel.
        passwords: the value of each ``Proxy-Authorization``.
    """

    def __init__(self, target: str, refusal: str = "") -> None:
        """``refusal``: the status and reason with which it answers, opening nothing."""
        super().__init__(target)
        self.refusal = refusal
        self.asked: list[str] = []
        self.passwords: list[str] = []

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.asked.append(head[0].split(" ")[1])
        for line in head[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "proxy-authorization":
                self.passwords.append(value.strip())
        status = self.refusal or "200 Connection established"
        writer.write(f"HTTP/1.1 {status}\r\n\r\n".encode())
        if self.refusal:
            writer.close()
            return
        await super()._connect(reader, writer)
