"""A zip, stored without compression, in which one member lies so that it can be mapped."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping
from typing import IO

from relay_int8.runtime.tvm_runtime import ALIGNMENT

# Of a member's local header (APPNOTE.TXT, 4.3.7, 4.5.3): its size without name and extra fields,
# where the sizes of these are, and the size of the field that members beyond 4 GB need.
_HEADER_BYTES, _LENGTHS, _ZIP64_BYTES = 30, slice(26, 30), 20
_PADDING = 0xD935  # the extra field by which Android's zipalign aligns members


def zip_bytes(members: Mapping[str, bytes], aligned: str) -> memoryview:
    """Return a stored zip; equal members give equal bytes (every date is the same).

    The content of the member called ``aligned``, if there is one, begins at a multiple of
    ``ALIGNMENT`` bytes.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            if name == aligned:
                info.extra = _padding(buffer.tell() + _HEADER_BYTES + len(name) + _ZIP64_BYTES)
            # The field of large members is there in any case, so that the header's size is known.
            with archive.open(info, "w", force_zip64=name == aligned) as member:
                member.write(content)
    return buffer.getbuffer()


def content_begin(file: IO[bytes], member: zipfile.ZipInfo) -> int:
    """Return the byte of the file where the content of a member begins."""
    file.seek(member.header_offset)
    name, extra = struct.unpack("<HH", file.read(_HEADER_BYTES)[_LENGTHS])
    return member.header_offset + _HEADER_BYTES + int(name + extra)


def _padding(end: int) -> bytes:
    """Return an extra field of a zip by which a header that would end there ends aligned."""
    field = struct.Struct("<HH")
    size = -(end + field.size) % ALIGNMENT
    return field.pack(_PADDING, size) + bytes(size)
