"""What does a config.json say, checked, with the defaults of `transformers`?"""

from collections.abc import Mapping
from typing import Any

from tuner.errors import UnsupportedModelError

LARGEST = 10_000_000
MOST_LAYERS = 2_000


def quote(value: Any) -> str:
    """A value as an error message shows it: short, whatever it is."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a number of more than {int(value.bit_length() * 0.3):,} digits"
    return repr(value)[:80]


class ConfigReader:
    """Reads the values of a parsed config.json; a wrong one raises UnsupportedModelError naming it and its
    bounds.

    A key may have several names (`n_embd`, `hidden_size`): the first that is there counts.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def within(self, *names: str) -> "ConfigReader":
        """The object under the first of `names` that holds one; an empty one if none does."""
        found = (self._values.get(name) for name in names)
        return ConfigReader(next((value for value in found if isinstance(value, Mapping)), {}))

    def has(self, *names: str) -> bool:
        """Whether one of the names is there."""
        return any(name in self._values for name in names)

    def count(self, *names: str, default: int | None = None, at_most: int = LARGEST) -> int:
        """A whole number from 1 to `at_most`."""
        value = self._value(names, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= at_most:
            told = next((name for name in names if name in self._values), names[0])
            raise self.wrong(told, value, f"a whole number from 1 to {at_most:,}")
        return value

    def whole(self, name: str, *, default: int) -> int:
        """A whole number from 0."""
        value = self._value((name,), default)
        return 0 if value == 0 and not isinstance(value, bool) else self.count(name, default=default)

    def optional_count(self, *names: str, default: int | None) -> int | None:
        """A whole number from 1, or null."""
        return None if self._value(names, default) is None else self.count(*names, default=default or 1)

    def probability(self, *names: str, default: float) -> float:
        """A number from 0 up to but not including 1."""
        value = self._value(names, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise self.wrong(names[0], value, "a number from 0 up to but not including 1")
        return float(value)

    def fraction(self, *names: str, default: float) -> float:
        """A number above 0 and up to 1."""
        value = self._value(names, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise self.wrong(names[0], value, "a number above 0 and up to 1")
        return float(value)

    def flag(self, *names: str, default: bool) -> bool:
        """True or false; null is false."""
        value = self._value(names, default)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(names[0], value, "true or false")
        return bool(value)

    def number(self, *names: str, default: float | None) -> float | None:
        """A positive finite number, or null."""
        value = self._value(names, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
            raise self.wrong(names[0], value, "a positive number or null")
        return float(value)

    def choice(self, *names: str, default: str, among: frozenset[str]) -> str:
        """One of the words in `among`."""
        value = self._value(names, default)
        if not isinstance(value, str) or value not in among:
            raise self.wrong(names[0], value, f"one of {', '.join(sorted(among))}")
        return value

    def words(self, name: str, *, length: int, among: frozenset[str]) -> list[str] | None:
        """A list of `length` words from `among`, or null."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != length or not all(word in among for word in value):
            raise self.wrong(name, value, f"a list of {length} words, each one of {', '.join(sorted(among))}")
        return list(value)

    def divides(self, part: str, parts: int, *, whole: str, total: int) -> int:
        """The quotient total / parts, where `parts` divides `total`."""
        if total % parts:
            raise UnsupportedModelError(
                f"the configuration's {part} ({parts:,}) does not divide {whole} ({total:,})"
            )
        return total // parts

    def refuse(self, name: str, *, because: str) -> None:
        """Raise where the configuration sets `name` to true."""
        if self.flag(name, default=False):
            raise UnsupportedModelError(f"the configuration sets {name}: {because}")

    def wrong(self, name: str, value: Any, expected: str) -> UnsupportedModelError:
        """The error for a value that is not what was expected."""
        return UnsupportedModelError(
            f"the configuration's {name} must be {expected}, but is {quote(value)}. Correct it in the "
            "config.json."
        )

    def _value(self, names: tuple[str, ...], default: Any) -> Any:
        return next((self._values[name] for name in names if name in self._values), default)
