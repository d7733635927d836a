"""RepeatAfterK: a player sees a symbol, and is asked for it k steps later.

env = RepeatAfterK(k=3)
observation = env.reset()  # shows the symbol
for _ in range(3):
    observation = env.act({})  # nobody acts, until there is a question

"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index as whole

from entity_env.actions import Action
from entity_env.arguments import check_whole
from entity_env.observation import CategoricalActionMask, Observation
from entity_env.spaces import ActionName, CategoricalActionSpace, Discrete, Entity, ObsSpace

from .checks import read_choices
from .small_game import SmallGame, maybe

__all__ = ["RepeatAfterK"]

_PLAYER = ("Player",)
_ASKED = CategoricalActionMask(actor_types=_PLAYER)
_WAITING = CategoricalActionMask(actor_types=())


class RepeatAfterK(SmallGame):
    """A player sees a symbol, and is asked for it k steps later.

    The observation with the question does not show the symbol: without a memory all symbols are
    equally likely.

    Entities:
        A ``Player`` without features, whose id is "Player"; in the first observation of an episode
        a ``Symbol`` [symbol], in the one k steps later a ``Question`` without features.
    Actions:
        ``say``: the player says a symbol, "0" to the last one, when there is a question. Until then
        there are no actors.
    Reward:
        1.0 for the symbol that was shown, else 0.0.
    End:
        After the answer, which is step ``k + 1``. The last observation has the metric ``win``, 1.0
        or 0.0.
    Randomness:
        The symbol, each as likely as any other.
    Source:
        The simplest of the tasks in which long short-term memory was shown to bridge time lags
        (Hochreiter and Schmidhuber 1997, section 5.2).

    Args:
        k: Steps from the symbol to the question, 1 to 10,000.
        symbols: Number of symbols, 2 to 1,000.

    Raises:
        SettingError: A parameter of the wrong type or range.
    """

    _saved = {"symbol": whole, "steps": whole, "answer": maybe(whole)}

    def __init__(self, k: int = 3, symbols: int = 4) -> None:
        self.k = check_whole("k", k, 1, 10_000)
        self.symbols = check_whole("symbols", symbols, 2, 1000)
        self.labels = tuple(str(symbol) for symbol in range(self.symbols))
        self.symbol = 0
        self.answer: int | None = None
        symbol = Entity([Discrete("symbol", self.symbols)])
        entities = {"Symbol": symbol, "Question": Entity(), "Player": Entity()}
        self._obs_space = ObsSpace(entities=entities)
        self._action_space = {"say": CategoricalActionSpace(self.labels)}

    @property
    def over(self) -> bool:
        """True after the answer."""
        return self.steps > self.k

    @property
    def won(self) -> bool:
        """True if the answer is right."""
        return self.answer == self.symbol

    def _begin(self) -> None:
        self.symbol, self.answer = int(self.rng.integers(self.symbols)), None

    def _play(self, actions: Mapping[ActionName, Action]) -> None:
        if self.steps == self.k:
            (self.answer,) = read_choices(actions, "say", _PLAYER, self.labels)

    def _show(self) -> Observation:
        return Observation(
            features={
                "Symbol": [[self.symbol]] if self.steps == 0 else [],
                "Question": [()] if self.steps == self.k else [],
                "Player": [()],
            },
            ids={"Player": _PLAYER},
            actions={"say": _ASKED if self.steps == self.k else _WAITING},
        )

    def _problems(self, symbol: int, steps: int, answer: int | None) -> dict[str, bool]:
        every = range(self.symbols)
        return {
            "a symbol that there is not": symbol not in every,
            "a step beyond the last one": not 0 <= steps <= self.k + 1,
            "an answer that there is not": answer is not None and answer not in every,
            "an answer before its time, or none": (answer is None) != (steps <= self.k),
        }

    def render_text(self) -> str:
        """Return a line for all steps: the symbol, waiting, the question, and the answer."""
        shown = [str(self.symbol), *"." * (self.k - 1), "?"][: self.steps + 1]
        return " ".join([*shown, *([] if self.answer is None else [str(self.answer)])])
