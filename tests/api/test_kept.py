"""Is what was made lately found again, and never more than there is room for?"""

from api.web.kept import Kept


def test_what_was_not_looked_at_for_longest_goes_first() -> None:
    """By bytes, not by number; what is kept again under its key counts once."""
    kept: Kept[str] = Kept(most_bytes=100)
    for key in ("a", "b", "c"):
        kept.keep(key, key.upper(), size_bytes=30)
    assert kept.find("a") == "A"
    kept.keep("a", "A", size_bytes=40)
    assert kept.bytes == 100
    kept.keep("d", "D", size_bytes=30)
    assert [kept.find(key) for key in ("a", "b", "c", "d")] == ["A", None, "C", "D"]
    kept.keep("huge", "H", size_bytes=101)
    assert kept.find("huge") is None
    assert kept.bytes == 100
