"""TLS over memory buffers, so that the stamps of the reads below it survive."""

import ssl
from typing import Final

PLAIN_BYTES: Final = 16384  # the largest record of TLS


class Tls:
    """One TLS session over memory buffers."""

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=server_name
        )
        self.is_closed = False

    @property
    def pending(self) -> int:
        """Bytes that wait to be sent."""
        return self._outgoing.pending

    def take_pending(self) -> bytes:
        """Return the bytes that wait to be sent."""
        return self._outgoing.read()

    def feed(self, data: bytes) -> None:
        """Take bytes of the server, for the handshake."""
        self._incoming.write(data)

    def shake_hands(self) -> bool:
        """Go on with the handshake; False: more bytes are needed."""
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def encrypt(self, data: bytes) -> bytes:
        """Return what goes out for `data`."""
        self._session.write(data)
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        """Return the text of the bytes that came in; `is_closed` says that no more will come."""
        self._incoming.write(data)
        plain = bytearray()
        try:
            while True:
                piece = self._session.read(PLAIN_BYTES)
                if not piece:
                    self.is_closed = True
                    break
                plain += piece
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_closed = True
        return bytes(plain)
