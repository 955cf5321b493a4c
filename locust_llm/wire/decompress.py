"""Incremental content decoding. We ask for `identity`; some proxies compress all the same."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import brotli

CODINGS = ("gzip", "x-gzip", "deflate", "br")

_EITHER_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class CorruptBody(ValueError):
    """The body is not in the coding its headers name."""


def decoder(coding: str) -> Callable[[bytes], bytes]:
    """A function that turns the next compressed piece into the text that it completes; raises CorruptBody."""
    if coding == "br":
        return _guarded(brotli.Decompressor().process)
    if coding == "deflate":
        return _guarded(_Deflate())
    return _guarded(zlib.decompressobj(_EITHER_GZIP_OR_ZLIB).decompress)


class _Deflate:
    """`deflate` means zlib, but many servers send the raw format: decide by the first piece."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj()
        self._first = True

    def __call__(self, data: bytes) -> bytes:
        if not self._first:
            return self._inflate.decompress(data)
        self._first = False
        try:
            return self._inflate.decompress(data)
        except zlib.error:
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._inflate.decompress(data)


def _guarded(process: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def run(data: bytes) -> bytes:
        try:
            return process(data)
        except (zlib.error, brotli.error) as error:
            raise CorruptBody(str(error)) from None

    return run
