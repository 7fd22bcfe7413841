"""A MongoDB wire client for set-up and status calls. Timed work is done by the C++ programs."""
import socket
import struct


class CommandError(Exception):
    pass


class Long(int):
    """An int that is 64 bits wide in BSON, however small."""


def encode(document):
    """BSON of a dict of int, float, bool, str, None, bytes (16: a UUID), dict and list. Order is kept."""
    body = b"".join(_element(name, value) for name, value in document.items())
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def _element(name, value):
    key = name.encode() + b"\0"
    if isinstance(value, bool):
        return b"\x08" + key + (b"\1" if value else b"\0")
    if isinstance(value, int):
        small = -2**31 <= value < 2**31 and not isinstance(value, Long)
        return (b"\x10" + key + struct.pack("<i", value)) if small else (b"\x12" + key + struct.pack("<q", value))
    if isinstance(value, float):
        return b"\x01" + key + struct.pack("<d", value)
    if isinstance(value, str):
        text = value.encode() + b"\0"
        return b"\x02" + key + struct.pack("<i", len(text)) + text
    if value is None:
        return b"\x0a" + key
    if isinstance(value, bytes):
        return b"\x05" + key + struct.pack("<iB", len(value), 4 if len(value) == 16 else 0) + value
    if isinstance(value, list):
        return b"\x04" + key + encode({str(i): v for i, v in enumerate(value)})
    if isinstance(value, dict):
        return b"\x03" + key + encode(value)
    raise TypeError(f"{name}: {type(value).__name__} has no BSON here")


# Types whose value has a fixed size and that nobody here looks at.
_FIXED = {0x07: 12, 0x13: 16, 0xFF: 0, 0x7F: 0, 0x06: 0, 0x0A: 0}


def decode(data, at=0):
    """A dict of what `encode` knows; other types of fixed size are their bytes."""
    end = at + struct.unpack_from("<i", data, at)[0] - 1
    at += 4
    out = {}
    while at < end:
        kind = data[at]
        stop = data.index(b"\0", at + 1)
        name = data[at + 1:stop].decode()
        at = stop + 1
        if kind == 0x01:
            out[name], at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 0x02:
            size = struct.unpack_from("<i", data, at)[0]
            out[name], at = data[at + 4:at + 3 + size].decode(), at + 4 + size
        elif kind in (0x03, 0x04):
            size = struct.unpack_from("<i", data, at)[0]
            inner = decode(data, at)
            out[name], at = (list(inner.values()) if kind == 4 else inner), at + size
        elif kind == 0x05:
            size = struct.unpack_from("<i", data, at)[0]
            out[name], at = data[at + 5:at + 5 + size], at + 5 + size
        elif kind == 0x08:
            out[name], at = data[at] != 0, at + 1
        elif kind == 0x10:
            out[name], at = struct.unpack_from("<i", data, at)[0], at + 4
        elif kind in (0x09, 0x11, 0x12):
            out[name], at = struct.unpack_from("<q", data, at)[0], at + 8
        elif kind in _FIXED:
            out[name], at = (None if kind == 0x0A else data[at:at + _FIXED[kind]]), at + _FIXED[kind]
        else:
            raise ValueError(f"BSON type {kind} of {name}")
    return out


class Connection:
    def __init__(self, port, timeout=120):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def command(self, db, document):
        """The reply of a command that succeeded; CommandError otherwise."""
        body = encode({**document, "$db": db})
        self.socket.sendall(struct.pack("<iiii", 21 + len(body), 1, 0, 2013) + b"\0\0\0\0\0" + body)
        header = self._read(16)
        reply = decode(self._read(struct.unpack("<i", header[:4])[0] - 16), 5)
        if not reply.get("ok"):
            raise CommandError(f"{next(iter(document))}: {reply.get('errmsg')} ({reply.get('code')})")
        if reply.get("writeErrors"):
            raise CommandError(f"{next(iter(document))}: {reply['writeErrors'][0]}")
        return reply

    def _read(self, size):
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise CommandError("the server closed the connection")
            data += part
        return bytes(data)

    def close(self):
        self.socket.close()
