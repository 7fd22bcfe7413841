"""A client that needs no driver: BSON of the common types, OP_MSG, and OP_COMPRESSED with zstd."""
import ctypes
import ctypes.util
import itertools
import socket
import struct

OP_MSG, OP_COMPRESSED = 2013, 2012
ZSTD_ID = 3


# ---------------------------------------------------------------- BSON

def _element(name, value):
    def field(kind, data):
        return bytes([kind]) + name.encode() + b"\0" + data
    if isinstance(value, bool):
        return field(0x08, b"\1" if value else b"\0")
    if isinstance(value, int):
        if -2**31 <= value < 2**31:
            return field(0x10, struct.pack("<i", value))
        return field(0x12, struct.pack("<q", value))
    if isinstance(value, float):
        return field(0x01, struct.pack("<d", value))
    if isinstance(value, str):
        data = value.encode() + b"\0"
        return field(0x02, struct.pack("<i", len(data)) + data)
    if value is None:
        return field(0x0A, b"")
    if isinstance(value, dict):
        return field(0x03, encode(value))
    if isinstance(value, list):
        return field(0x04, encode({str(i): v for i, v in enumerate(value)}))
    raise TypeError(f"{name}: {type(value)}")


def encode(document):
    body = b"".join(_element(name, value) for name, value in document.items()) + b"\0"
    return struct.pack("<i", 4 + len(body)) + body


def decode(data):
    return _document(data, 0)[0]


def _document(data, at):
    end = at + struct.unpack_from("<i", data, at)[0] - 1
    at += 4
    found = {}
    while at < end:
        kind = data[at]
        stop = data.index(b"\0", at + 1)
        name = data[at + 1:stop].decode()
        found[name], at = _value(kind, data, stop + 1)
    return found, end + 1


def _value(kind, data, at):
    fixed = {0x01: "<d", 0x09: "<q", 0x10: "<i", 0x11: "<Q", 0x12: "<q"}
    if kind in fixed:
        return struct.unpack_from(fixed[kind], data, at)[0], at + struct.calcsize(fixed[kind])
    if kind == 0x02:
        size = struct.unpack_from("<i", data, at)[0]
        return data[at + 4:at + 3 + size].decode(), at + 4 + size
    if kind == 0x03:
        return _document(data, at)
    if kind == 0x04:
        array, at = _document(data, at)
        return list(array.values()), at
    if kind == 0x05:
        size = struct.unpack_from("<i", data, at)[0]
        return data[at + 5:at + 5 + size], at + 5 + size
    if kind == 0x07:
        return data[at:at + 12].hex(), at + 12
    if kind == 0x08:
        return data[at] == 1, at + 1
    if kind == 0x0A:
        return None, at
    raise ValueError(f"BSON type {kind:#x}")


# ---------------------------------------------------------------- zstd

class Zstd:
    """libzstd itself, so that what the server compressed is checked by other code than its own."""

    def __init__(self):
        self._lib = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
        for name in ("ZSTD_compress", "ZSTD_decompress", "ZSTD_compressBound",
                     "ZSTD_findFrameCompressedSize"):
            getattr(self._lib, name).restype = ctypes.c_size_t
        self._lib.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong

    def compress(self, data):
        bound = self._lib.ZSTD_compressBound(ctypes.c_size_t(len(data)))
        out = ctypes.create_string_buffer(bound)
        size = self._lib.ZSTD_compress(out, ctypes.c_size_t(bound), data,
                                       ctypes.c_size_t(len(data)), 3)
        return out.raw[:size]

    def decompress(self, data, size):
        out = ctypes.create_string_buffer(size)
        got = self._lib.ZSTD_decompress(out, ctypes.c_size_t(size), data,
                                        ctypes.c_size_t(len(data)))
        if got != size:
            raise ValueError("not zstd, or of another size")
        return out.raw


    def frames(self, data):
        """The contents of every whole frame that stands anywhere in `data`."""
        magic = bytes.fromhex("28b52ffd")
        at = data.find(magic)
        while at >= 0:
            rest = data[at:at + 1024 * 1024]
            packed = self._lib.ZSTD_findFrameCompressedSize(rest, ctypes.c_size_t(len(rest)))
            size = self._lib.ZSTD_getFrameContentSize(rest, ctypes.c_size_t(len(rest)))
            if packed <= len(rest) and size < 2**30:
                yield self.decompress(rest[:packed], size)
            at = data.find(magic, at + 4)


# ---------------------------------------------------------------- the wire

class Client:
    _ids = itertools.count(1)

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.reply_was_compressed = False

    def close(self):
        self._socket.close()

    def command(self, db, document, zstd=None):
        """Sends the command (in zstd where a Zstd is given) and returns the reply."""
        body = struct.pack("<I", 0) + b"\0" + encode({**document, "$db": db})
        code = OP_MSG
        if zstd:
            body = struct.pack("<iiB", OP_MSG, len(body), ZSTD_ID) + zstd.compress(body)
            code = OP_COMPRESSED
        self._socket.sendall(struct.pack("<iiii", 16 + len(body), next(self._ids), 0, code) + body)
        return self._reply(zstd)

    def _reply(self, zstd):
        size, _, _, code = struct.unpack("<iiii", self._take(16))
        body = self._take(size - 16)
        self.reply_was_compressed = code == OP_COMPRESSED
        if self.reply_was_compressed:
            original, raw_size, compressor = struct.unpack_from("<iiB", body)
            assert (original, compressor) == (OP_MSG, ZSTD_ID), (original, compressor)
            body = zstd.decompress(body[9:], raw_size)
        return decode(body[5:])

    def _take(self, size):
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the server closed the connection")
            data += part
        return data
