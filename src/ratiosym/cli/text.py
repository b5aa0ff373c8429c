"""Sanitise text for printing."""


def printable(text: str) -> str:
    """Remove control characters, which may come from files and could control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
