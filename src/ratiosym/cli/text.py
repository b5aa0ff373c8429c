"""Text that is safe to print."""


def printable(text: str) -> str:
    """Text without control characters, which could steer the terminal: they may come from files."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
