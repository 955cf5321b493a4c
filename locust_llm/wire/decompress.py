"""Incremental content decoding. We ask for `identity`; some proxies compress all the same."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import brotli

NONE = ("", "identity")
"""Codings that mean no coding."""


class CorruptBody(ValueError):
    """The body is not in the coding its headers name, or in none that is known here."""


def decoder(coding: str) -> Callable[[bytes], bytes]:
    """A function that turns the next compressed piece into the text that it completes.

    It raises CorruptBody; so does `decoder` itself for an unknown coding.
    """
    if coding == "br":
        return _guarded(brotli.Decompressor().process)
    if coding == "deflate":
        return _guarded(_Deflate())
    if coding in ("gzip", "x-gzip"):
        return _guarded(_Gzip())
    raise CorruptBody(f"content-encoding {coding[:40]!r}, though none was asked for")


class _Gzip:
    """A gzip body may be several members, one after the other."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def __call__(self, data: bytes) -> bytes:
        text = self._inflate.decompress(data)
        while self._inflate.eof and self._inflate.unused_data.strip(b"\0"):
            rest = self._inflate.unused_data
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
            text += self._inflate.decompress(rest)
        return text


class _Deflate:
    """`deflate` means zlib, but many servers send the raw format: the first two bytes tell."""

    def __init__(self) -> None:
        self._head = b""
        self._inflate: zlib._Decompress | None = None

    def __call__(self, data: bytes) -> bytes:
        if self._inflate is None:
            data = self._head + data
            if len(data) < 2:
                self._head = data
                return b""
            zlib_header = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS if zlib_header else -zlib.MAX_WBITS)
        return self._inflate.decompress(data)


def _guarded(process: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def run(data: bytes) -> bytes:
        try:
            return process(data)
        except (zlib.error, brotli.error) as error:
            raise CorruptBody(str(error)) from None

    return run
