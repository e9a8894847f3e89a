"""mini-swe-agent's batch runs: what their harness does itself, told apart from what an agent proposes.

`mini-extra swebench` passes an environment class nothing but its settings: neither the instance, whose image docker
needs, nor whether a command is the harness's (`run.env_startup_command`, the operator's own
configuration) or an agent's. Both can be seen in who calls us. An agent has no part in that: its commands come as data.
"""

import sys
from types import FrameType
from typing import Any

_MODULE, _FUNCTION = "minisweagent.run.benchmarks.swebench", "get_sb_environment"
_DEPTH = 12


def harness_calls() -> bool:
    """Tell whether the caller of our caller is the harness, which sets an environment up."""
    return _is_harness(sys._getframe(2))


def instance_of_batch() -> dict[str, Any] | None:
    """The instance that the harness is just setting an environment up for; None outside of batch runs."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame is None:
            return None
        if _is_harness(frame):
            instance = frame.f_locals.get("instance")
            return instance if isinstance(instance, dict) else None
        frame = frame.f_back
    return None


def _is_harness(frame: FrameType) -> bool:
    return frame.f_code.co_name == _FUNCTION and frame.f_globals.get("__name__") == _MODULE
