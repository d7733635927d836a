"""The parts of the documentation that are made while MkDocs builds it.

The page of settings comes from the dataclasses, and some pages are files of the repository that
stand where they are used.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from ppo_trainer.command_line.settings_help import SettingHelp, all_settings

ROOT = Path(__file__).parents[1]
TAKEN = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/RESULTS.md": "results.md",
    "envs/README.md": "compiled-games.md",
    "envs/mmo/README.md": "worlds.md",
    "envs/rts/README.md": "strategy-games.md",
    "examples/browser/README.md": "browser.md",
    "examples/work.md": "work.md",
}
"""Files of the repository that are pages, too."""

_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
_INTRODUCTION = """\
---
search:
  boost: 4
---

# Settings

All settings of a run. `python -m ppo_trainer --help ppo` shows those of a group in the terminal,
`--help ppo.gamma` one of them. On the command line a setting is `name=value`; in Python it is a
field of `TrainConfig`, or `recipe("xor", "ppo.gamma=0.9")`. Each entry gives the default and the
valid values, the meaning with its unit, and what another value trades. [Recipes](recipes.md) lists
settings by task.

A *recipe* is a file of settings for a game, which `env=<name>` takes. Recipes that differ from the
default are named with their values: in these games another value has been found to be better.
"""


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    files.append(File.generated(config, "settings.md", content=settings_page()))
    for source, page in TAKEN.items():
        text = with_page_links((ROOT / source).read_text(encoding="utf-8"), source)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to files of the repository lead to their pages."""
    if page.file.src_uri in (*TAKEN.values(), "settings.md"):
        return markdown
    return with_page_links(markdown, f"docs/{page.file.src_uri}")


def with_page_links(text: str, source: str) -> str:
    """Return a text with the links of a file of the repository as those of a page of ``docs/``.

    A link to a file that is no page becomes the text of the link.
    """

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path.startswith("docs/"):
            return f"[{words}]({path.removeprefix('docs/')}{anchor or ''})"
        if path in TAKEN:
            return f"[{words}]({TAKEN[path]}{anchor or ''})"
        return words

    return _LINK.sub(link, text)


def settings_page() -> str:
    """Return the page of settings: each group once, and the groups within a group after it."""
    groups: dict[str, list[SettingHelp]] = {}
    for own in all_settings():
        groups.setdefault(own.name.rpartition(".")[0], []).append(own)
    parts = [_INTRODUCTION]
    for name, settings in groups.items():
        shared = name.removeprefix("value_")
        if shared == name:
            parts += [f"## {name or 'The run'}\n", *map(_described, settings)]
        elif "." not in name:
            text = f"The settings of `{shared}`, for the value function alone; null by default."
            parts.append(f"## {name}\n\n{text}\n")
    return "\n".join(parts)


def _described(own: SettingHelp) -> str:
    default = "to be given" if own.default is None else f"default `{own.default}`"
    lines = [f"### {own.name} {{ #{own.name} }}", "", f"*{default}; {own.values}*", ""]
    lines.append(own.meaning)
    if own.recipes:
        text = "; ".join(f"`{value}` in {', '.join(names)}" for value, names in own.recipes.items())
        lines += ["", f"Recipes: {text}."]
    return "\n".join([*lines, ""])
