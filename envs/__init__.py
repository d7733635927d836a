"""Environments that come with the library, written against ``entity_env`` only.

Importing this package gives them their short names; their modules load when they are used.
"""

from entity_env.registry import register

__all__: list[str] = []

register("cherry_pick", "envs.cherry_pick.CherryPick")
register("count", "envs.count.Count")
register("floor_is_lava", "envs.floor_is_lava.FloorIsLava")
register("minefield", "envs.minefield.Minefield")
register("minesweeper", "envs.minesweeper_native.MineSweeperVec")
register("minesweeper_python", "envs.minesweeper.MineSweeper")
register("move_to_origin", "envs.move_to_origin.MoveToOrigin")
register("multi_armed_bandit", "envs.multi_armed_bandit.MultiArmedBandit")
register("multi_snake", "envs.multi_snake.MultiSnake")
register("not_hotdog", "envs.not_hotdog.NotHotdog")
register("pick_matching_balls", "envs.pick_matching_balls.PickMatchingBalls")
register("rock_paper_scissors", "envs.rock_paper_scissors.RockPaperScissors")
register("treasure_hunt", "envs.treasure_hunt.TreasureHunt")
register("xor", "envs.xor.Xor")
