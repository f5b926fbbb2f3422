"""What is a new row called? A name that sorts by the time it was made and that nobody can guess."""

import secrets
from datetime import datetime

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26
PATTERN = rf"^[{ALPHABET}]{{{LENGTH}}}$"


def new_identifier(now: datetime) -> str:
    """48 bits of milliseconds since 1970, 80 random ones, in Crockford's base 32 (a ULID in lower case)."""
    value = int(now.timestamp() * 1000) << 80 | secrets.randbits(80)
    digits = []
    for _ in range(LENGTH):
        value, digit = divmod(value, 32)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
