"""The rules that hold at one moment (UTC), compiled, and the digest of all that decides."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from humanlayer_agent.canonical_json import canonical, encodable
from humanlayer_agent.confine.confinement import Bounds, Profile
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions import containment
from humanlayer_agent.policy.conditions.circumstances import Counter
from humanlayer_agent.policy.conditions.compiler import Compiler
from humanlayer_agent.policy.conditions.evaluation import Rules
from humanlayer_agent.policy.conditions.link_targets import Links
from humanlayer_agent.policy.conditions.rule_matcher import VERDICTS, CompiledRule, compiled
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy.layers import Layer, excuses
from humanlayer_agent.policy.layers.catalog_files import SHIPPED, Catalogs
from humanlayer_agent.shell import HOST, View

_MEGABYTE = 1_000_000


class InForce:
    """The rules of `layers` at the moment, or on the day, `now` (UTC, ISO 8601). Thread-safe.

    Args:
        reads: path sets that confined commands can read, besides those of the policies.
        tmp: the /tmp of confined commands; None where nothing is confined.
        catalogs: what is known of programs.

    Raises:
        PolicyError: a rule names a variable that is not known, a path pattern is none, or a bundle has expired: without
            it the layers below decide nothing.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        variables: Mapping[str, str],
        now: str,
        reads: Sequence[str] = (),
        tmp: View | None = None,
        catalogs: Catalogs = SHIPPED,
    ) -> None:
        self.now = now
        for layer in layers:
            if layer.bundle is not None:
                layer.bundle.check_holds(now)
        self._compiled = _compiled(_Given(tuple(layers), dict(variables), tuple(reads), catalogs), now)
        self.rules, self.digest = self._compiled.rules, self._compiled.digest
        confine = self.rules.confine
        self.view = HOST
        """What of the disk is seen by what is allowed."""
        if tmp is not None and confine is not None:
            named = [profile for rule in self.rules.all for profile in (rule.confined, rule.approved)]
            self.view = containment.seen(tmp, dict.fromkeys([confine, *filter(None, named)]))

    def holds(self, now: str) -> bool:
        """Tell whether these are the rules of another moment too. Whoever sets the clock back gets them anew."""
        return self._compiled.holds(now)

    @property
    def confine(self) -> Profile | None:
        """Return the confinement that allowed commands run in, as it is on this machine; None where no policy says."""
        return None if self.rules.confine is None else containment.situated(self.rules.confine)

    def confinement(self, name: str) -> Profile:
        """Return the confinement that the policies of the machine or the user call `name`, as it is on this machine.

        Raises:
            PolicyError: none has it; which there are.
        """
        bases = self._compiled.bases
        found = next((policy for policy in bases if name in policy.confinements), None)
        if found is None:
            known = ", ".join(sorted({each for policy in bases for each in policy.confinements}))
            raise PolicyError(f"no confinement is called {name!r}; there are: {known or 'none'}")
        return containment.situated(self._compiled.given.profile(found, name))


@dataclass(frozen=True, slots=True)
class _Given:
    """What rules are compiled of; see `InForce`."""

    layers: tuple[Layer, ...]
    variables: Mapping[str, str]
    reads: tuple[str, ...]
    catalogs: Catalogs

    def is_same(self, other: "_Given") -> bool:
        """Tell whether it is this, with the same policies, and not only equal ones: rules are known by identity."""
        same = [id(layer.policy) for layer in self.layers] == [id(layer.policy) for layer in other.layers]
        return same and self == other

    def profile(self, policy: Policy, name: str) -> Profile:
        """Return a confinement of a policy."""
        lists = Compiler(_lists(self.variables), self.variables)
        written = policy.confinements[name].items()
        filled = {key: lists.texts(value) if isinstance(value, list) else value for key, value in written}
        return containment.profile(name, filled, self.variables, self.reads)


class _Compiled:
    """The rules at a moment, compiled, and the digest of all that decides."""

    def __init__(self, given: _Given, now: str) -> None:
        self.given, self._now = given, now
        layers = given.layers
        ends = {end for layer in layers for end in layer.policy.ends()}
        ends.update(layer.bundle.end for layer in layers if layer.bundle is not None)
        self._until = min((end for end in ends if end > now), default="")
        """The moment at which something of this ends; "" where nothing does."""
        self.digest = _digest(layers, given.variables, now, given.catalogs)
        self.bases = [layer.policy for layer in layers if layer.base]
        # What the highest layer says holds.
        confine = next((given.profile(p, p.defaults.confine) for p in self.bases if p.defaults.confine), None)
        self._links = Links()
        rules, counters = _compiled_rules(given, now, self._links)
        keep = next((p.defaults.keep for p in self.bases if p.defaults.keep), {})
        undo = next((p.defaults.undo for p in self.bases if p.defaults.undo), "none")
        unmatched = VERDICTS[self.bases[0].defaults.unmatched]
        self.rules = Rules(rules, unmatched, confine, _bounds(keep), counters, undo == "run")

    def holds(self, now: str) -> bool:
        """See `InForce.holds`."""
        return self._now <= now and (not self._until or now < self._until)

    def is_current(self) -> bool:
        """Tell whether links lead to where they led when this was made."""
        return self._links.lead_there_still()


_RECENT: deque[_Compiled] = deque(maxlen=4)
"""What this process has compiled last: with it the next Director of a project takes 1 ms, and 12 without."""


def _compiled(given: _Given, now: str) -> _Compiled:
    for known in tuple(_RECENT):
        if known.holds(now) and known.given.is_same(given) and known.is_current():
            return known
    made = _Compiled(given, now)
    _RECENT.append(made)
    return made


def _bounds(keep: Mapping[str, int]) -> Bounds:
    own = {name: value for name, value in keep.items() if name != "megabytes"}
    return Bounds(**own, **({"bytes": keep["megabytes"] * _MEGABYTE} if "megabytes" in keep else {}))


def _digest(layers: Sequence[Layer], variables: Mapping[str, str], now: str, catalogs: Catalogs) -> str:
    """SHA-256 over the canonical JSON of the catalogs that do not ship, the layers and the values of the variables."""
    texts = []
    for layer in layers:
        policy = layer.policy
        text = policy.deciding(now)
        trusted = "true" if layer.trusted else "false"
        texts.append(f'{{"authority":{canonical(layer.authority).decode()},{text[1:-1]},"trusted":{trusted}}}')
    values = canonical({name: encodable(value) for name, value in sorted(variables.items())}).decode()
    own = f'"catalogs":{canonical(catalogs.digests).decode()},' if catalogs.files else ""
    return sha256(f'{{{own}"layers":[{",".join(texts)}],"variables":{values}}}'.encode()).hexdigest()


def _compiled_rules(given: _Given, now: str, links: Links) -> tuple[list[CompiledRule], list[Counter]]:
    """The rules that hold at that moment, but for the allow rules of layers that may not allow; and what is counted for
    them.
    """
    counters: list[Counter] = []
    out: list[tuple[Layer, CompiledRule]] = []
    may_allow = True
    layers, variables = given.layers, given.variables
    lists = _lists(variables)
    for layer in layers:
        policy = layer.policy
        compilers = [Compiler({**scope, **lists}, variables, links) for scope in policy.scopes]
        profiles: dict[str, Profile] = {}
        for rule in policy.on(now):
            allows = may_allow and layer.trusted
            for name in (rule.confined, rule.approved):
                if name is not None and allows and name not in profiles:
                    profiles[name] = given.profile(policy, name)
            if rule.decision != "allow" or allows:
                confined, approved = (profiles.get(name or "") for name in (rule.confined, rule.approved))
                compiler = compilers[rule.scope]
                excused = excuses.compiled(layers, layer, rule, now, compiler)
                made = compiled(rule, layer.authority, policy.defaults, compiler, confined, approved, excused)
                out.append((layer, made))
        may_allow = may_allow and not policy.defaults.locked
        counters += [counter for compiler in compilers for counter in compiler.counters]
    return excuses.with_own_programs(layers, out), counters


def _lists(variables: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The lists that no file has to define."""
    return {"policies": tuple("${" + name + "}" for name in variables if name.startswith("POLICY_FILE_"))}
