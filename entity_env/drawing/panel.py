"""The lists beside a scene: entity types, meanings of marks, global features, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from entity_env.batching.frame import Frame
from entity_env.drawing.canvas import Canvas
from entity_env.drawing.chosen import Chosen
from entity_env.drawing.legend import draw_sign
from entity_env.drawing.scene import INK, SOFT, Color, Scene, Sign, text_width
from entity_env.drawing.table_text import TextBlock, feature_text, short_name
from entity_env.spaces import ObsSpace, feature_name

__all__ = ["Panel"]

_MARK: Color = (255, 236, 179)


@dataclass(frozen=True)
class _Word:
    """A word of a line: from ``x`` on to the right, or up to ``x`` if it ``ends`` there."""

    x: float
    text: str
    color: Color
    ends: bool = False


class Panel:
    """Lists of entity types, entities and global features, one line under the other.

    Args:
        canvas: The canvas.
        unit: Unit of length for the sizes of text and lines.
        left: Left edge of the lines.
        width: Largest width of a line.
    """

    def __init__(self, canvas: Canvas, unit: float, left: float, width: float) -> None:
        self.canvas, self.unit, self.left, self.width = canvas, unit, left, width
        self._indent = 22 * unit
        self._lines: list[list[_Word]] = []
        self._signs: dict[int, Sign] = {}
        self._selected: set[str] = set()
        self._marked: set[int] = set()

    def draw(
        self, scene: Scene, frame: Frame, obs_space: ObsSpace, chosen: Sequence[Chosen] = ()
    ) -> None:
        """Draw the legend of a scene, global features, and tables of types without places.

        Entities in tables that an actor has ``chosen`` are marked.
        """
        self._selected = {str(choice.actee) for choice in chosen}
        for sign in scene.legend:
            self._add_sign(sign)
        if scene.legend and obs_space.global_features:
            self._lines.append([])
        for feature, value in zip(obs_space.global_features, frame.global_features, strict=True):
            self._add_pair(0, feature_name(feature), feature_text(feature, value), SOFT)
        for sign, block, _ in scene.lists:
            self._lines += [[]] * bool(self._lines)
            self._add_sign(sign)
            if block.count and block.header:
                self._add_table(block)
        self._write()

    def _add_sign(self, sign: Sign) -> None:
        """Add a mark, its meaning and its value."""
        self._signs[len(self._lines)] = sign._replace(meaning="")
        self._add_pair(self._indent, sign.meaning, sign.value, INK)

    def _add_pair(self, x: float, name: str, value: str, color: Color) -> None:
        """Draw a name to the left and its value to the right."""
        right = min(self.width, 152 * self.unit)
        room = right - x - self._measure(value) - 8 * self.unit
        name = self.canvas.shortened(name, self._size, room)
        self._lines.append([_Word(x, name, color), _Word(right, value, INK, ends=True)])

    def _add_table(self, block: TextBlock) -> None:
        """Add ids to the left and as many columns of features beside them as fit."""
        names = [short_name(block.name, *label) for label in block.labels]
        right = self._indent + max(map(self._measure, names))
        columns: list[tuple[float, list[str]]] = []
        for place, name in enumerate(block.header):
            cells = [name, *(row[place] for row in block.cells)]
            right += 12 * self.unit + max(map(self._measure, cells))
            if right > self.width:
                break
            columns.append((right, cells))
        head = [_Word(right, cells[0], SOFT, ends=True) for right, cells in columns]
        if len(columns) < len(block.header):
            head.append(_Word(self.width, "...", SOFT))
        self._lines.append(head)
        for i, name in enumerate(names, 1):
            if block.labels[i - 1][0] in self._selected:
                self._marked.add(len(self._lines))
            words = [_Word(right, cells[i], INK, ends=True) for right, cells in columns]
            self._lines.append([_Word(self._indent, name, SOFT), *words])
        if block.count > len(names):
            more = f"... and {block.count - len(names):,} more"
            self._lines.append([_Word(self._indent, more, SOFT)])

    def _write(self) -> None:
        """Write all lines, in as many columns as fit beside each other."""
        height, top, gap = 19 * self.unit, 12 * self.unit, 28 * self.unit
        most = int((self.canvas.height - 2 * top) / height)
        widest = max([0.0, *(self._end(word) for words in self._lines for word in words)])
        room = most * max(1, int((self.width + gap) / (widest + gap)))
        if len(self._lines) > room:
            more = f"... and {len(self._lines) - room + 1} more lines"
            self._lines[room - 1 :] = [[_Word(0, more, SOFT)]]
            self._signs.pop(room - 1, None)
            self._marked.discard(room - 1)
        for i, words in enumerate(self._lines):
            left, y = self.left + i // most * (widest + gap), top + (i % most + 0.5) * height
            if i in self._marked:
                right = left + max(map(self._end, words)) + 6 * self.unit
                start = left + self._indent - 6 * self.unit
                self.canvas.box(start, y - height / 2, right, y + height / 2, _MARK)
            if i in self._signs:
                draw_sign(self.canvas, left, y, self._signs[i], self._size)
            for word in words:
                anchor = "rm" if word.ends else "lm"
                self.canvas.text(left + word.x, y, word.text, self._size, word.color, anchor)

    def _end(self, word: _Word) -> float:
        return word.x if word.ends else word.x + self._measure(word.text)

    @property
    def _size(self) -> float:
        return 12 * self.unit

    def _measure(self, text: str) -> float:
        return text_width(text, self._size)
