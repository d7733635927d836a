"""A massively multiplayer world, with one file for each system; ``world.py`` combines them.

Its rules are those of Neural MMO 1.3 (Suarez et al. 2020). ``world.py`` has the environment.
"""

__all__: list[str] = []
