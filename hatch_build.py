"""Builds the console's page into the wheel. Node is taken from the machine, or from PyPI as a build requirement."""

from __future__ import annotations

import importlib.util
import os
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "src/counsel/http/console/page"


class ConsoleHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Asked before the build: only a machine without Node needs one, and only for a wheel that has the page."""
        build = self._build()
        needed = self._wanted() and not _is_editable() and not build.has_node()
        return [build.NODE_WHEEL] if needed and build.has_node_wheel() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # `make console`, or the first `counsel console`
            return
        page = Path(self.root, PAGE)
        if self._wanted():
            self._build_page(page)
        if (page / "index.html").is_file():
            build_data["artifacts"].append(f"/{PAGE}/**")

    def _wanted(self) -> bool:
        """A page that is as new as its source is not built again; without its source it cannot be."""
        source = Path(self.root, "console")
        return (source / "package.json").is_file() and not self._build().is_fresh(
            source, Path(self.root, PAGE)
        )

    def _build_page(self, page: Path) -> None:
        build = self._build()
        try:
            build.build(Path(self.root, "console"), page, self.app.display_waiting)
        except build.BuildFailed as error:
            if os.environ.get("COUNSEL_REQUIRE_CONSOLE"):  # our CI and releases
                raise
            self.app.display_warning(
                f"THE CONSOLE IS NOT IN THIS WHEEL: {error}\nEverything else works; its page says how to build it."
            )

    def _build(self) -> ModuleType:
        file = Path(self.root, "src/counsel/http/console/build.py")
        spec = importlib.util.spec_from_file_location("console_build", file)
        if spec is None or spec.loader is None:
            raise FileNotFoundError(file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def _is_editable() -> bool:
    """hatchling does not say for which of its functions it asks."""
    names = (frame.f_code.co_name for frame, _ in traceback.walk_stack(None))
    return "get_requires_for_build_editable" in names
