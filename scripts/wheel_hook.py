"""Hatch's part in building the wheel: it takes what ``wheel_layout`` says in place of the files."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface):
    """Gives Hatch the files of one package; an editable install has the repository as it is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files that differ, and name them."""
        if version == "editable":
            return
        root = Path(self.root)
        self._folder = tempfile.TemporaryDirectory()
        layout = runpy.run_path(str(root / "scripts" / "wheel_layout.py"))
        for name, text in layout["wheel_files"](root):
            file = Path(self._folder.name) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            # File by file: only so does Hatch leave out the one of the repository.
            build_data["force_include"][str(file)] = name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was written."""
        if version != "editable":
            self._folder.cleanup()
