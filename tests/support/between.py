"""What may stand between a client and a server: a proxy that keeps half-closes for itself, and one that ends TLS."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from pathlib import Path
from urllib.parse import urlsplit

import trustme


class Deaf:
    """Passes bytes both ways. That one side has closed its half is not passed on; a whole close is.

    ``base`` is that of the server behind it, at this proxy's address.
    """

    def __init__(self, base: str) -> None:
        address = urlsplit(base)
        self._behind = address.hostname or "", address.port or 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self._socket.getsockname()[1]}{address.path}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Deaf:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # or the thread that accepts would go on
        self._socket.close()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._socket.accept()
                try:
                    far = socket.create_connection(self._behind)
                except OSError:
                    near.close()
                    raise
                self._open += [near, far]
                threading.Thread(target=self._inward, args=(near, far), daemon=True).start()
                threading.Thread(target=self._outward, args=(near, far), daemon=True).start()

    def _inward(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(65536):
                far.sendall(data)

    def _outward(self, near: socket.socket, far: socket.socket) -> None:
        with near, far, contextlib.suppress(OSError):
            while data := far.recv(65536):
                near.sendall(data)  # fails when the client has closed all of it: then the server learns of it
            return


class Secure(Deaf):
    """A proxy that ends TLS. A client that closes its half ends all of it, as TLS libraries have it."""

    def __init__(self, base: str, folder: Path) -> None:
        authority = trustme.CA()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self._context)
        self.certificate = folder / "authority.pem"
        authority.cert_pem.write_to_path(str(self.certificate))
        super().__init__(base)
        self.base = self.base.replace("http:", "https:")

    def _inward(self, near: socket.socket, far: socket.socket) -> None:
        """Both ways in one thread: a TLS connection is not for two."""
        with contextlib.suppress(OSError), self._context.wrap_socket(near, server_side=True) as plain, far:
            while True:
                ready = [plain] if plain.pending() else select.select([plain, far], [], [])[0]
                for each in ready:
                    data = each.recv(65536)
                    if not data:
                        return
                    (far if each is plain else plain).sendall(data)

    def _outward(self, near: socket.socket, far: socket.socket) -> None:
        pass
