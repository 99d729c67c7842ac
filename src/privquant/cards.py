"""How results are laid out: as a table in text; in a notebook as a card or a table, where every text is escaped.

Standard library only: `privquant.messages` needs it, and that runs on the device.
"""

from collections.abc import Iterable, Sequence
from html import escape

# Colours and type are the notebook's own, so that a card reads on light and on dark.
_CARD = "display:inline-block;max-width:44em;border:1px solid #8888;border-radius:6px;padding:.6em 1em"
_NAME = "text-align:left;vertical-align:top;padding:.1em 1em .1em 0;opacity:.65;font-weight:normal"
_TEXT = "text-align:left;padding:.1em 0"
_CELL = "text-align:right;padding:.1em .8em"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table in text: a line a row, the cells of a column at the right of it."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


def card(value: str, title: str, rows: Iterable[tuple[str, str]]) -> str:
    """The value large, what it is below it, and a line for each (name, text)."""
    lines = "".join(
        f'<tr style="background:none"><th style="{_NAME}">{escape(name)}</th>'
        f'<td style="{_TEXT}">{escape(text)}</td></tr>'
        for name, text in rows
    )
    return (
        f'<div style="{_CARD}"><div style="font-size:1.5em">{escape(value)}</div>'
        f'<div style="opacity:.65">{escape(title)}</div><table style="margin:.4em 0 0">{lines}</table></div>'
    )


def grid(head: Sequence[str], rows: Iterable[Sequence[str]], below: Iterable[str] = ()) -> str:
    """A table with a line of heads, and sentences below it."""

    def line(cells: Sequence[str], kind: str) -> str:
        return "<tr>" + "".join(f'<{kind} style="{_CELL}">{escape(cell)}</{kind}>' for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    said = "".join(f"<div>{escape(sentence)}</div>" for sentence in below)
    return f"<div><table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>{said}</div>"
