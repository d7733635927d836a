"""Environments that come with the library and depend on ``entity_env`` only.

The folder is installed as ``ragged_envs`` (setup.py), because many projects have a folder ``envs``;
its modules import each other relatively. Importing this package registers the short names of the
environments; their modules are imported when they are used.
"""

from entity_env.registry import register

__all__: list[str] = []

register("capture_the_flag", "ragged_envs.rts.capture_the_flag.CaptureTheFlagRows")
register("capture_the_flag_duel", "ragged_envs.rts.capture_the_flag.CaptureTheFlagDuelRows")
register("cherry_pick", "ragged_envs.cherry_pick.CherryPick")
register("connect_four", "ragged_envs.connect_four.ConnectFourRows")
register("count", "ragged_envs.count.Count")
register("fill_order", "ragged_envs.fill_order.FillOrder")
register("floor_is_lava", "ragged_envs.floor_is_lava.FloorIsLava")
register("job_shop", "ragged_envs.industry.job_shop.JobShopRows")
register("kuhn_poker", "ragged_envs.poker.KuhnPoker")
register("leduc_poker", "ragged_envs.poker.LeducPoker")
register("minefield", "ragged_envs.minefield.Minefield")
register("minirts", "ragged_envs.rts.minirts_rows.MiniRtsRows")
register("minirts_duel", "ragged_envs.rts.minirts_rows.MiniRtsDuelRows")
register("minesweeper", "ragged_envs.minesweeper.MineSweeperRows")
register("mmo", "ragged_envs.mmo.world.MmoRows")
register("move_to_origin", "ragged_envs.move_to_origin.MoveToOrigin")
register("multi_armed_bandit", "ragged_envs.multi_armed_bandit.MultiArmedBandit")
register("multi_snake", "ragged_envs.multi_snake.MultiSnake")
register("not_hotdog", "ragged_envs.not_hotdog.NotHotdog")
register("photosynthesis", "ragged_envs.photosynthesis.PhotosynthesisRows")
register("pursuit", "ragged_envs.pursuit.Pursuit")
register("repeat_after_k", "ragged_envs.repeat_after_k.RepeatAfterK")
register("rock_paper_scissors", "ragged_envs.rock_paper_scissors.RockPaperScissors")
register("tic_tac_toe", "ragged_envs.tic_tac_toe.TicTacToe")
register("tower_defence", "ragged_envs.rts.tower_defence.TowerDefenceRows")
register("vehicle_routing", "ragged_envs.industry.vehicle_routing.VehicleRoutingRows")
register("warehouse", "ragged_envs.industry.warehouse.WarehouseRows")
register("xor", "ragged_envs.xor.Xor")
