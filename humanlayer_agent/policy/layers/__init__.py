"""Layers: a policy and the authority it has.

machine > user > project. The machine's are two, its policy bundle (`machine_bundle`) and its own file. Verdicts
are combined strictest first, "no rule" being neutral, so a lower layer can always add an ask or a deny, and never take
one away. Machine and user may allow; a project may only once a human has trusted exactly these files (see `trust`).
Where neither the machine nor the user has a policy, `builtin:default` stands in.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.locations import MACHINE_FOLDER, PROJECT_FOLDER, config_path
from humanlayer_agent.policy.language import loader as loading
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy.layers import trust

if TYPE_CHECKING:
    from humanlayer_agent.policy.language.bundle import Bundle

FILE = "policy.yaml"
Authority = Literal["machine", "user", "builtin", "given", "project"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One policy in force. `given` is one that was named by itself; `trusted` matters for a project's.

    `bundle` is the signed one that it stands in, where it does.
    """

    policy: Policy
    authority: Authority
    trusted: bool = True
    bundle: "Bundle | None" = None

    @property
    def base(self) -> bool:
        """True where it may allow, and say what happens to what nothing decides, whoever else does."""
        return self.authority != "project"

    @property
    def files(self) -> list[str]:
        """The files of this machine that it is read from, but for those that ship."""
        if self.bundle is None:
            return trust.own_files(self.policy)
        from humanlayer_agent.policy.language.bundle import SUFFIX

        return list(
            dict.fromkeys(f"{path.rpartition(f'{SUFFIX}/')[0]}{SUFFIX}" for path in trust.own_files(self.policy))
        )


def find_layers(project: Path | str, *, machine: Path | None = None, tested: bool = True) -> list[Layer]:
    """The layers in force for `project`, the highest first.

    Args:
        project: the directory the agent works for.
        machine: the folder of the machine's settings; the usual one where it is None.
        tested: see `loader`.

    Raises:
        PolicyError: a policy can't be read, has a mistake, fails its own tests, or can be written by others than it
            should.
    """
    layers: list[Layer] = []
    for authority, path in places(project, machine=machine):
        if authority == "machine":  # what the machine takes stands above its own file
            layers += _bundled(machine, tested=tested)
        if not _exists(path):
            continue
        if authority == "project":
            policy = loading.load(path, within=project, tested=tested)
            if policy.observe:
                raise PolicyError(f"{path}: observe: a project's policy can't turn enforcement off")
            layers.append(Layer(policy, "project", trust.is_trusted(project, trust.policy_files(policy))))
        else:
            policy = loading.load(path, tested=tested)
            for file in trust.own_files(policy):
                trust.check_owner(file, machine=authority == "machine")
            for exception in policy.exceptions:
                # Nobody excuses from the machine's rules, and there is nobody else above the user.
                raise PolicyError(
                    f"{exception.origin}: neither this file nor what it extends has a rule {exception.rule}"
                )
            layers.append(Layer(policy, authority))
    if not any(layer.base for layer in layers):
        layers.insert(0, Layer(loading.load(loading.named("default")), "builtin"))
    return layers


def _bundled(machine: Path | None, *, tested: bool) -> list[Layer]:
    """Return the layer of the machine's policy bundle, where it takes one."""
    folder = check_machine(machine)
    names = ("bundle.yaml", "policy.bundle", "bundle-last.json")
    if not any(_exists(os.path.join(folder, name)) for name in names):
        return []  # and nothing is imported
    from humanlayer_agent.policy.layers import machine_bundle

    found = machine_bundle.load(machine, tested=tested)
    if found is None:
        return []
    policy, bundle = found
    return [Layer(replace(policy, name=bundle.title), "machine", bundle=bundle)]


def check_machine(machine: Path | None = None) -> str:
    """Return the folder of the machine's settings, there or not.

    Raises:
        PolicyError: what stands there is no folder, or a link that leads nowhere (say to a disk that is not mounted).
    """
    folder = str(machine or MACHINE_FOLDER)
    if _exists(folder) and not os.path.isdir(folder):
        raise PolicyError(f"{folder}: is no folder, so what this machine says can't be read")
    return folder


def places(project: Path | str, *, machine: Path | None = None) -> list[tuple[Authority, str]]:
    """Return where each layer's policy is, the highest authority first."""
    return [
        ("machine", os.path.join(machine or MACHINE_FOLDER, FILE)),
        ("user", config_path(FILE)),
        ("project", os.path.join(project, PROJECT_FOLDER, FILE)),
    ]


def observed(layers: Sequence[Layer], wanted: bool = False) -> bool:
    """Tell whether these layers are only observed.

    Only the highest layer turns enforcement off, or lets `wanted` (the option `--observe`) do it: what the machine
    enforces, no user can switch off.

    Raises:
        PolicyError: it was wanted, and the machine's policy does not allow that.
    """
    highest = layers[0]
    if wanted and highest.authority == "machine" and not highest.policy.observe:
        raise PolicyError("--observe: the policy of this machine is enforced (only it can say observe: true)")
    return wanted or highest.policy.observe


def _exists(path: str) -> bool:
    """Tell whether there is something at `path`. What can't be looked at is not taken for missing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise PolicyError(f"{path}: can't be read: {error.strerror}") from error
    return True
