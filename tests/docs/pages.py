"""The pages of the documentation, and the code in them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(
    path
    for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    if "_build" not in path.parts
    and path.parent.name != "configuration"
    and path.name != "api.md"
)
_FENCE = re.compile(r"^(\s*)(```+)(.*)$")
_SOURCE = re.compile(r"^<!-- (\S+) -->$")


@dataclass(frozen=True)
class Block:
    """A fenced block; ``source`` is the file whose very text it claims to be."""

    page: Path
    line: int
    language: str
    text: str
    source: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    found, before, start = [], "", 0
    lines = page.read_text(encoding="utf-8").splitlines()
    opened: tuple[str, str] | None = None  # fence and language
    for number, line in enumerate(lines):
        match = _FENCE.match(line)
        if opened is None:
            if match:
                assert not match[1], f"{page}:{number + 1}: an indented fence"
                opened, start = (match[2], match[3].strip()), number
            elif line.strip():
                before = line
        elif match and match[2] == opened[0] and not match[3]:
            text = "\n".join(lines[start + 1 : number]) + "\n"
            source = _SOURCE.match(before)
            name = source[1] if source else None
            found.append(Block(page, start + 1, opened[1], text, name))
            opened, before = None, ""
    assert opened is None, f"{page}:{start + 1}: a fence without an end"
    return found


def all_blocks(*languages: str) -> list[Block]:
    return [
        block
        for page in PAGES
        for block in blocks(page)
        if not languages or block.language in languages
    ]


def prose(page: Path) -> str:
    """A page without its blocks."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
