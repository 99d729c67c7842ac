"""What is wrong with an operator's request, in plain words: which field, what is allowed, what was given.

pydantic's own messages speak of "input" and "valid" and repeat what was given. Here it is repeated only if it is a
number, a word of JSON or a short text, in a field that this API has: never a field we did not ask for, a whole
object, or a body that was meant for another address (such as a device's report).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privquant.aggregator.operators.forms import IN_WORDS

_SHOWN = 3
_LONGEST = 60

# By pydantic's name of the mistake; the names in braces are those of its context.
_ALLOWED = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "finite_number": "must be a finite number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of fewer digits",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be a JSON object",
    "model_attributes_type": "must be a JSON object",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "has {discriminator}, which must be {expected_tags}",
    "union_tag_not_found": "needs {discriminator}",
    "missing": "is needed",
    "extra_forbidden": "is not a field of this request",
}
# Mistakes whose input is not the one value that is wrong.
_NOT_REPEATED = frozenset(("missing", "extra_forbidden", "union_tag_invalid", "union_tag_not_found"))


def in_words(mistakes: Sequence[Mapping[str, Any]]) -> str:
    """One line for the mistakes that pydantic found, the first few of them."""
    lines = list(dict.fromkeys(_line(mistake) for mistake in mistakes))
    more = f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "; ".join(lines[:_SHOWN]) + more


def _line(mistake: Mapping[str, Any]) -> str:
    kind, context = mistake["type"], mistake.get("ctx", {})
    where, *path = mistake["loc"]
    if kind == "json_invalid":
        return f"the body is not JSON, from character {path[0] if path else 0} on"
    if path[:1] == ["domain"]:
        del path[1:2]  # the kind of the domain, which is no field
    if path[:1] == ["options"] and len(path) == 3:
        # A value that is of none of the kinds allowed; pydantic has a mistake for each.
        return f"{_name(path[:2])} must be a text, a whole number, true, false or null{_given(mistake)}"
    allowed = IN_WORDS.get(context.get("pattern", "")) or _ALLOWED.get(kind, "is not what this field takes")
    given = "" if kind in _NOT_REPEATED or where == "path" else _given(mistake)
    return f"{_name(path)} {allowed.format(**context)}{given}"


def _name(path: Sequence[str | int]) -> str:
    """options.spread, quantiles[2], or the whole body."""
    found = ""
    for part in path:
        found += f"[{part}]" if isinstance(part, int) else f".{part}"
    return _short(found.lstrip(".")) or "the body"


def _given(mistake: Mapping[str, Any]) -> str:
    value = mistake.get("input")
    if len(mistake["loc"]) < 2:
        return ""
    if value is None or isinstance(value, bool):
        return f", got {str(value).lower() if value is not None else 'null'}"
    if isinstance(value, int | float | str):
        return f", got {_short(repr(value))}"
    if isinstance(value, list):
        return f", got a list of {len(value)}"
    return ", got an object" if isinstance(value, dict) else ""


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
