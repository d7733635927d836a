"""An independent form of the massively multiplayer world to compare with, an object for each agent.

It follows the rules as they are written. All chance goes through one object, so that a test can
hand in what happened elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

__all__ = ["Action", "Agent", "Chance", "Rules", "World"]

LAVA, WATER, GRASS, SCRUB, FOREST, STONE = range(6)
BLOCKED = (WATER, STONE)
MOVES = ((-1, 0), (1, 0), (0, 1), (0, -1), (0, 0))
NORTH, SOUTH, EAST, WEST, STAY = range(5)
MELEE, RANGE, MAGE, DEFENCE, FISHING, HUNTING, CONSTITUTION = range(7)
FORAGING = (FISHING, HUNTING, CONSTITUTION)
TOP_LEVEL = 98
SIGHT = 7
"""Number of cells that an agent sees in each direction, in a crop of 15 x 15."""
EXPERIENCE = [
    total // 4
    for total in accumulate((int(k + 300 * 2 ** (k / 7)) for k in range(1, TOP_LEVEL)), initial=0)
]
"""Total experience that each level needs, from level 1 on."""

Cell = tuple[int, int]
Noise = Callable[[float, float], float]


@dataclass(frozen=True)
class Rules:
    """Constants, and the systems that can be switched off."""

    foraging: bool = True
    combat: bool = True
    pilfering: bool = True
    freezing: bool = True
    progression: bool = True
    immunity: bool = True
    wilderness: bool = False
    """Attacks need a small enough difference of levels, as on the large map."""
    cap: int = 128
    populations: int = 8
    start_level: int = 10
    """Initial levels of Fishing, Hunting and Constitution, and so food, water and health."""
    immune: int = 10
    freeze: int = 3
    regrowth: float = 0.025
    restored: float = 0.5
    """Food or water for each level of the skill."""
    healed: float = 0.1
    forage_experience: int = 10
    style_experience: int = 40
    """Experience in the attacker's style and the target's Defence, for each point of damage."""
    constitution_experience: int = 20
    ranges: tuple[int, int, int] = (1, 2, 3)
    damage: tuple[Cell, Cell, Cell] = ((5, 45), (3, 32), (1, 24))
    """Least damage of each style, and the damage that level 99 adds."""
    centre: Cell = (35, 35)
    """Place from which distances for wilderness are measured."""
    order: tuple[int, ...] = FORAGING
    """In which water, food and health are updated; () is an order at random in each update."""


@dataclass
class Agent:
    """An agent; ``experience`` has a number for each skill."""

    uid: int
    population: int
    row: int
    col: int
    health: int
    food: int
    water: int
    immune: int
    wilderness: int
    experience: list[int]
    freeze: int = 0
    age: int = 0
    damage: int = 0
    is_dead: bool = False

    def level(self, skill: int) -> int:
        return bisect_right(EXPERIENCE, self.experience[skill])

    @property
    def combat_level(self) -> int:
        thousandths = 250 * (self.level(DEFENCE) + self.level(CONSTITUTION)) + max(
            650 * self.level(MELEE), 325 * (self.level(RANGE) // 2 + self.level(RANGE))
        )
        return thousandths // 1000

    def distance(self, row: int, col: int) -> int:
        """Return the Chebyshev distance to a cell."""
        return max(abs(self.row - row), abs(self.col - col))


@dataclass(frozen=True)
class Action:
    """A move, and an attack on the agent of a number, if there is one."""

    move: int = STAY
    style: int = MELEE
    target: int | None = None


@dataclass
class Chance:
    """Everything that happens by chance."""

    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def spawn(self, cells: Sequence[Cell], populations: int) -> tuple[Cell, int]:
        """Return where a newcomer would appear, and of which population."""
        return cells[self.below(len(cells))], self.below(populations)

    def hit(self, attacker: Agent, target: Agent, probability: float) -> bool:
        return self.rng.random() < probability

    def regrown(self, scrub: np.ndarray, probability: float) -> np.ndarray:
        """Return which of the cells (n, 2) become forest: (n,) bool."""
        return self.rng.random(len(scrub)) < probability

    def skill_order(self, agent: Agent) -> Sequence[int]:
        return self.shuffled(FORAGING)

    def below(self, number: int) -> int:
        return int(self.rng.random() * number)

    def shuffled(self, items: Sequence[int]) -> list[int]:
        return [items[i] for i in self.rng.permutation(len(items))]


class World:
    """A world that is never reset: a map, and agents from the oldest to the youngest."""

    def __init__(
        self, tiles: np.ndarray, spawn: Sequence[Cell], chance: Chance, rules: Rules | None = None
    ) -> None:
        self.tiles, self.spawn, self.chance = tiles.copy(), spawn, chance
        self.rules = rules or Rules()
        self.agents: dict[int, Agent] = {}
        self.born = 0

    # A tick.

    def step(self, actions: Mapping[int, Action]) -> list[Agent]:
        """Play a tick with what each agent does, and return those who died."""
        agents = list(self.agents.values())
        acts = {agent.uid: actions.get(agent.uid, Action()) for agent in agents}
        attacks = [
            (agent, self.agents[act.target], act.style)
            for agent, act in zip(agents, acts.values(), strict=True)
            if act.target in self.targets(agent, act.style)
        ]
        self.try_spawn()
        for agent in agents:
            self.update(agent)
        for agent in agents:
            self.move(agent, acts[agent.uid].move)
        for attacker, target, style in attacks:
            self.attack(attacker, target, style)
        dead = [agent for agent in agents if agent.is_dead]
        for agent in dead:
            del self.agents[agent.uid]
        scrub = np.argwhere(self.tiles == SCRUB)
        self.tiles[tuple(scrub[self.chance.regrown(scrub, self.rules.regrowth)].T)] = FOREST
        return dead

    def try_spawn(self) -> None:
        rules = self.rules
        if len(self.agents) >= rules.cap:
            return
        (row, col), population = self.chance.spawn(self.spawn, rules.populations)
        same = sum(agent.population == population for agent in self.agents.values())
        if same >= rules.cap / rules.populations:
            return
        self.agents[self.born] = Agent(
            *(self.born, population, row, col, *[rules.start_level] * 3),
            immune=rules.immune if rules.immunity else 0,
            wilderness=self.wilderness(row, col),
            experience=[EXPERIENCE[rules.start_level - 1] * (s in FORAGING) for s in range(7)],
        )
        self.born += 1

    def update(self, agent: Agent) -> None:
        if agent.health <= 0 or self.tiles[agent.row, agent.col] == LAVA:
            agent.is_dead = True
            return
        agent.immune, agent.freeze = max(agent.immune - 1, 0), max(agent.freeze - 1, 0)
        agent.wilderness = self.wilderness(agent.row, agent.col)
        if self.rules.foraging:
            for skill in self.rules.order or self.chance.skill_order(agent):
                {FISHING: self.drink, HUNTING: self.eat, CONSTITUTION: self.heal}[skill](agent)
        agent.damage = 0
        agent.age += 1

    def drink(self, agent: Agent) -> None:
        agent.water = max(agent.water - 1, 0)
        if self.is_at_water(agent.row, agent.col):
            agent.water += self.restore(agent, FISHING, agent.water)

    def eat(self, agent: Agent) -> None:
        agent.food = max(agent.food - 1, 0)
        if self.tiles[agent.row, agent.col] == FOREST:
            self.tiles[agent.row, agent.col] = SCRUB
            agent.food += self.restore(agent, HUNTING, agent.food)

    def restore(self, agent: Agent, skill: int, has: int) -> int:
        level = agent.level(skill)
        amount = min(level - has, int(self.rules.restored * level))
        self.learn(agent, skill, self.rules.forage_experience * amount)
        return amount

    def heal(self, agent: Agent) -> None:
        most = agent.level(CONSTITUTION)
        if agent.food > agent.level(HUNTING) // 2 and agent.water > agent.level(FISHING) // 2:
            agent.health += min(most - agent.health, int(self.rules.healed * most))
        agent.health = max(agent.health - (agent.food == 0) - (agent.water == 0), 0)

    def move(self, agent: Agent, move: int) -> None:
        row, col = agent.row + MOVES[move][0], agent.col + MOVES[move][1]
        if agent.freeze == 0 and self.kind(row, col) not in BLOCKED:
            agent.row, agent.col = row, col

    def attack(self, attacker: Agent, target: Agent, style: int) -> None:
        rules, level = self.rules, attacker.level(style)
        if target.immune:
            return
        if not self.chance.hit(attacker, target, 0.5 + (level - target.level(DEFENCE)) / 200):
            return
        least, rise = rules.damage[style]
        damage = least + rise * level // 99
        target.damage += damage
        target.health = max(target.health - damage, 0)
        if rules.pilfering:
            target.food, target.water = max(target.food - damage, 0), max(target.water - damage, 0)
            attacker.food = min(attacker.food + damage, attacker.level(HUNTING))
            attacker.water = min(attacker.water + damage, attacker.level(FISHING))
        if style == MAGE and rules.freezing:
            target.freeze = rules.freeze
        for agent, skill in ((attacker, style), (target, DEFENCE)):
            self.learn(agent, skill, rules.style_experience * damage)
            self.learn(agent, CONSTITUTION, rules.constitution_experience * damage)

    def learn(self, agent: Agent, skill: int, experience: int) -> None:
        agent.experience[skill] += experience * self.rules.progression

    # What is where.

    def kind(self, row: int, col: int) -> int:
        """Return the kind of a tile; there is nothing but lava outside of the map."""
        rows, cols = self.tiles.shape
        return int(self.tiles[row, col]) if 0 <= row < rows and 0 <= col < cols else LAVA

    def is_at_water(self, row: int, col: int) -> bool:
        return any(self.kind(row + dr, col + dc) == WATER for dr, dc in MOVES[:4])

    def wilderness(self, row: int, col: int) -> int:
        distance = max(abs(row - self.rules.centre[0]), abs(col - self.rules.centre[1]))
        return max((distance - 7) // 3, -1)

    def targets(self, agent: Agent, style: int) -> list[int]:
        """Return whom an agent may attack with a style."""
        return [
            other.uid
            for other in self.agents.values()
            if self.rules.combat
            and other is not agent
            and other.distance(agent.row, agent.col) <= self.rules.ranges[style]
            and (not self.rules.wilderness or self.is_wild(agent, other))
        ]

    def is_wild(self, agent: Agent, other: Agent) -> bool:
        difference = abs(agent.combat_level - other.combat_level)
        return difference <= min(agent.wilderness, other.wilderness)


# Players: each is told a world and an agent, and returns the agent's action.


def random_player(world: World, agent: Agent) -> Action:
    return Action(world.chance.below(4), *random_attack(world, agent))


def still_player(world: World, agent: Agent) -> Action:
    return Action()


def safe_player(world: World, agent: Agent) -> Action:
    return Action(safe_move(world, agent), *random_attack(world, agent))


def forager(world: World, agent: Agent) -> Action:
    return Action(forage(world, agent))


def fighting_forager(world: World, agent: Agent) -> Action:
    """Forage, and hit the weakest agent in reach."""
    reach = world.targets(agent, MELEE)
    weakest = min(reach, key=lambda uid: world.agents[uid].health, default=None)
    return Action(forage(world, agent), MELEE, weakest)


def random_attack(world: World, agent: Agent) -> tuple[int, int | None]:
    style = world.chance.below(3)
    reach = world.targets(agent, style)
    return style, reach[world.chance.below(len(reach))] if reach else None


def neighbours(world: World, cell: Cell, moves: Sequence[int]) -> Iterator[tuple[int, Cell]]:
    """Yield those of the moves from a cell that neither fail nor kill, and where they lead."""
    for move in moves:
        beside = cell[0] + MOVES[move][0], cell[1] + MOVES[move][1]
        if world.kind(*beside) not in (LAVA, *BLOCKED):
            yield move, beside


def safe_move(world: World, agent: Agent) -> int:
    moves = world.chance.shuffled(range(4))
    return next((move for move, _ in neighbours(world, (agent.row, agent.col), moves)), STAY)


def forage(world: World, agent: Agent) -> int:
    """Go to what is needed most, or else to the other, or else anywhere."""

    def at_water(cell: Cell) -> bool:
        beside = ((cell[0] + dr, cell[1] + dc) for dr, dc in MOVES[:4])
        return any(world.kind(*c) == WATER and agent.distance(*c) <= SIGHT for c in beside)

    def at_forest(cell: Cell) -> bool:
        return world.kind(*cell) == FOREST and cell != (agent.row, agent.col)

    goals = (at_water, at_forest) if agent.water <= agent.food else (at_forest, at_water)
    ways = (way(world, agent, is_goal) for is_goal in goals)
    return next((move for move in ways if move is not None), safe_move(world, agent))


def way(world: World, agent: Agent, is_goal: Callable[[Cell], bool]) -> int | None:
    """Return the first move to the nearest goal in sight, or None if there is no way to any."""
    start, moves = (agent.row, agent.col), world.chance.shuffled(range(4))
    first, cells = {start: STAY}, deque([start])
    while cells:
        cell = cells.popleft()
        if is_goal(cell):
            return first[cell]
        for move, beside in neighbours(world, cell, moves):
            if beside not in first and agent.distance(*beside) <= SIGHT:
                first[beside] = move if cell == start else first[cell]
                cells.append(beside)
    return None


# Maps.


def heights(noise: Noise, seed: float, size: int, scale: int) -> np.ndarray:
    """Return ridged noise of eight octaves, at most 1: (size, size)."""

    def sharp(x: float, y: float) -> float:
        return 2 * (0.5 - abs(0.5 - (0.5 * noise(x, y) + 0.5)))

    high = np.zeros((size, size))
    for row, col in np.ndindex(size, size):
        for i in range(8):
            at = [scale * 2**i * (seed + place / size - 0.5) for place in (row, col)]
            high[row, col] += 0.5**i * sharp(*at) * (high[row, col] if i else 1)
    return high / high.max()


def small_map(high: np.ndarray, border: int = 9) -> np.ndarray:
    """Return the kinds of tiles of the map that the figures of the rules are of."""
    tiles = np.array([WATER, GRASS, FOREST, STONE])[np.digitize(high, [0.3, 0.57, 0.715])]
    distance = edge_distance(len(high))
    tiles[distance == border] = GRASS
    tiles[distance < border] = LAVA
    return tiles


def large_map(high: np.ndarray, border: int = 9) -> np.ndarray:
    """Return the kinds of tiles of the map with little food near its centre."""
    size = len(high)
    rows, cols = np.abs(np.indices((size, size)) - size // 2)
    chebyshev = np.maximum(rows, cols)
    offset = 0.325 * chebyshev / (size // 2)
    tiles = np.full((size, size), STONE)
    for kind, bound in ((FOREST, 0.75 - offset / 2), (GRASS, 0.675 - offset), (WATER, 0.3)):
        tiles[high < bound] = kind
    tiles[chebyshev < 6] = GRASS
    tiles[np.hypot(rows, cols) < 2.5] = WATER
    tiles[edge_distance(size) < border] = LAVA
    return tiles


def edge_distance(size: int) -> np.ndarray:
    """Return how far each cell is from the edge of the map: (size, size)."""
    index = np.arange(size)
    near = np.minimum(index, size - 1 - index)
    return np.minimum(near[:, None], near)


def ring(size: int, border: int = 9) -> list[Cell]:
    """Return the outermost cells that are not lava, from the top left one row by row."""
    return [(int(r), int(c)) for r, c in np.argwhere(edge_distance(size) == border)]
