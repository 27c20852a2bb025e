"""What no committed file may have: blanks at line ends, another end than one line end, conflict marks, too many bytes.

`check_files.py FILE ...` fixes the first two, says what it found and exits with 1, as pre-commit's own hooks do, which
would have to be fetched.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LARGEST_BYTES = 500 * 1024
# The line of seven = may underline a heading; the other two are in no text of ours.
CONFLICT = re.compile(rb"^(<{7}|>{7})( |$)", re.MULTILINE)


def check_file(path: Path) -> list[str]:
    """What is wrong with a file, in words; blanks and line ends are put right."""
    data = path.read_bytes()
    found = [f"larger than {LARGEST_BYTES // 1024} KiB"] if len(data) > LARGEST_BYTES else []
    if b"\0" in data[:8192]:
        return found
    if CONFLICT.search(data):
        found.append("conflict marks")
    tidy = re.sub(rb"[ \t]+(?=\r?$)", b"", data, flags=re.MULTILINE).rstrip(b"\r\n")
    tidy += b"\n" if tidy else b""
    if tidy != data:
        path.write_bytes(tidy)
        found.append("blanks at line ends or a wrong last line end: fixed")
    return found


def main() -> int:
    status = 0
    for name in sys.argv[1:]:
        path = Path(name)
        if path.is_symlink() or not path.is_file():
            continue
        for says in check_file(path):
            print(f"{name}: {says}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
