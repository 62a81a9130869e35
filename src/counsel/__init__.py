"""One switchboard for AI models and coding agents."""
# `python -m counsel` runs this file while the current folder is still first on the module path, so it imports nothing,
# not even `__future__`.

TYPE_CHECKING = False  # typing would cost every start of `counsel stdio` milliseconds
if TYPE_CHECKING:
    from typing import Any

    from counsel.api import Answer, Consensus, Counsel, Job, Review
    from counsel.errors import CounselError
    from counsel.types import Usage

__version__ = "0.1.0"
__all__ = ["Answer", "Consensus", "Counsel", "CounselError", "Job", "Review", "Usage", "__version__"]


def __getattr__(name: str) -> "Any":
    """`from counsel import Counsel`, without making every `counsel stdio` pay for its imports."""
    if name in {"Answer", "Consensus", "Counsel", "Job", "Review"}:
        from counsel import api

        return getattr(api, name)
    if name == "CounselError":
        from counsel.errors import CounselError

        return CounselError
    if name == "Usage":
        from counsel.types import Usage

        return Usage
    raise AttributeError(name)
