"""The checks of people: who may approve, by which key and which channels; and whether a question would reach
anybody.
"""

import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from humanlayer_agent.channels.registry import FACTORIES, uninstalled
from humanlayer_agent.doctor.context import Context, Finding, failed, ok, warning
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.locations import MACHINE_FOLDER, PASSPHRASE_VARIABLE, config_folder, key_path
from humanlayer_agent.safe_text import one_line

if TYPE_CHECKING:
    from humanlayer_agent.approvals.authority import ApprovalRule, Authority
    from humanlayer_agent.keys.signer_list import FleetSigners


def key(context: Context) -> Iterator[Finding]:
    """There is a key, and a passphrase locks it."""
    path = key_path()
    if not os.path.lexists(path):
        yield warning(f"there is no signing key ({path}): only answers at the agent's own terminal count", "hla init")
    else:
        try:
            yield ok(f"your key is {_fingerprint()[:16]}… ({path}), and your passphrase locks it")
        except ConfigError as error:
            yield failed(str(error), "Mend that, or: hla init --force puts it aside and makes another.")
    yield from _passphrase_file(context)


def _passphrase_file(context: Context) -> Iterator[Finding]:
    """A passphrase that lies in a file is as safe as that file."""
    named = context.environ.get(PASSPHRASE_VARIABLE)
    if not named:
        return
    from humanlayer_agent.keys.passphrase import in_file

    try:
        in_file(context.project)
    except ConfigError as error:
        yield failed(str(error), f"Mend that, or take {PASSPHRASE_VARIABLE} out of the environment.")
        return
    yield warning(
        f"the passphrase of your key is in {one_line(named)} ({PASSPHRASE_VARIABLE}): a program that the policy lets "
        "run can read it there, and then it can sign",
        "Have it so only where agents' commands don't run as you, but in containers, or on another machine.",
    )


def signers(context: Context) -> Iterator[Finding]:
    """Check that what the key has signed counts."""
    try:
        listed, fleet = context.profiles.signers, context.profiles.fleet
    except ConfigError:
        return  # said elsewhere
    yield from _listed(fleet, context.profiles.uncounted)
    yield from _changed(sorted(listed))
    try:
        mine = _fingerprint()
    except ConfigError:
        return
    if mine in listed:
        others = len(listed) - 1
        yield ok("your key is one of the signers" + (f"; others: {others}" if others else ""))
    elif fleet is not None:
        yield failed("your key is none of the signers: what it signs does not count", one_line(fleet.ask_for(mine)))
    else:
        place = config_folder() / "channels.yaml"
        yield failed(
            "your key is none of the signers: what it signs does not count", f'Add to {place}: signers: ["{mine}"]'
        )


def _listed(fleet: "FleetSigners | None", uncounted: Collection[str]) -> Iterator[Finding]:
    """Which signed list says who signs."""
    if fleet is None:
        return
    found, file = fleet.list, one_line(fleet.place.file)
    yield ok(
        f"the signers are those of the list {found.title}, until {found.expires}: {len(found.names)} keys ({file})"
    )
    if found.ends_soon:
        yield warning(
            f"the signer list {found.title} expires on {found.expires}: after it nobody's answer counts",
            f"Have a newer one signed, and put in force: {fleet.place.install}",
        )
    if uncounted:
        yield warning(
            f"a channels file names signers that the list {found.fleet} has not: they don't count: "
            + ", ".join(f"{each[:16]}…" for each in sorted(uncounted)),
            "Take them out there, or have whoever signs the list put them in.",
        )


def _changed(listed: list[str]) -> Iterator[Finding]:
    """Whoever can write your channels file can name a key of their own."""
    from contextlib import closing

    from humanlayer_agent.store.access import open_store
    from humanlayer_agent.store.log_heads import known_signers

    try:
        with closing(open_store(create=False)) as store:
            before = known_signers(store)
    except (ConfigError, StoreError):  # none yet, or `store.opens` says it
        return
    if before and before != listed:
        new = ", ".join(f"{each[:16]}…" for each in listed if each not in before) or "none"
        yield warning(
            f"the signers are others than at the last run; new: {new}",
            f"If you have not changed them, somebody else has: look into {config_folder() / 'channels.yaml'}.",
        )


def loaded(context: Context) -> Iterator[Finding]:
    """The channels files can be read, and say something that can be met."""
    try:
        profiles, authority = context.profiles, context.authority
    except ConfigError as error:
        yield failed(str(error), "Mend the file: until then no agent starts.")
        return
    if profiles.files:
        yield ok(f"who may approve is said by {', '.join(profiles.files)}")
    else:
        yield ok("there is no channels file: you may approve, at the agent's own terminal")
    if (own := authority.person_of(context.requester)) is not None:
        yield ok(f"you are known as {own.id}")
    else:
        name = context.requester.rpartition(":")[2] or str(os.getuid())
        yield failed(
            f"the channels files name people, and nobody is {context.requester}: what your agents ask is denied",
            f"Add to your entry under people: os_user: {name}",
        )


def ignored(context: Context) -> Iterator[Finding]:
    """A repository does not choose its judges."""
    try:
        found = context.profiles.ignored
    except ConfigError:
        return
    for path in found:
        yield warning(f"{path} is ignored: nobody has trusted it", "hla policy trust shows it first; or leave it so.")


def secrets(context: Context) -> Iterator[Finding]:
    """What channels need is installed, and their environment variables are set. What those hold is not shown."""
    from humanlayer_agent.channels.settings import secret_variables

    try:
        profiles = context.profiles
    except ConfigError:
        return
    used = {step.to for route in profiles.routes.values() for step in route.steps}
    for name, channel in profiles.channels.items():
        say = failed if name in used else warning
        if channel.type in FACTORIES and (why := uninstalled(name, profiles)):
            yield say(why.partition(": ")[0], why.partition(": ")[2])
        wanted = sorted({variable for _, variable in secret_variables(channel)})
        missing = [variable for variable in wanted if not context.environ.get(variable)]
        if missing:
            yield say(f"channel {name}: {', '.join(missing)} not set", "Set them where agents are started.")
        elif wanted:
            yield ok(f"channel {name}: {', '.join(wanted)} set")


def routes(context: Context) -> Iterator[Finding]:
    """Every route reaches somebody who may answer."""
    try:
        profiles, authority = context.profiles, context.authority
    except ConfigError:
        return
    for name, whole in authority.routes.items():
        try:
            rule = whole.without({each.person for each in authority.left()})
        except ConfigError as error:
            yield failed(f"nothing can be approved by it: {one_line(str(error))}", "Name others who may approve.")
            continue
        problems = {step.to: _unreachable(context, step.to) for step in rule.steps}
        if all(problems.values()):
            said = "; ".join(f"{channel}: {problem}" for channel, problem in problems.items())
            yield failed(f"route {name} reaches nobody: {said}", "Add a channel that works to its steps.")
        elif problem := _unanswerable(context, rule):
            yield warning(f"route {name}: {problem}", "Add approvers to it, or solo: true.")
        else:
            ways = ", ".join(f"{channel} ({problem})" if problem else channel for channel, problem in problems.items())
            yield ok(f"route {name}: {rule.quorum} of {_people(rule)}, by {ways}")
    if profiles.stands_in:
        yield ok("route default is the shipped one")
    if authority.glass:
        yield _emergencies(authority)


def _emergencies(authority: "Authority") -> Finding:
    """Return who may act outside of every route, two of them together."""
    left = {each.person for each in authority.left()}
    named = one_line(", ".join(who for who in authority.glass if who not in left))
    if len(set(authority.glass) - left) < 2:
        return warning(f"break_glass names {named or 'nobody'}, and others who have left: it takes two", "Name others.")
    return ok(f"outside of every route two of {named} may act, each with a key of their own (break_glass)")


def on_call(context: Context) -> Iterator[Finding]:
    """It can be found out who is on call."""
    from humanlayer_agent.hub.on_call import OnCallNames

    try:
        authority = context.authority
    except ConfigError:
        return
    names = OnCallNames()
    for name, rule in authority.routes.items():
        for step in rule.steps:
            if (source := step.on_call) is None:
                continue
            told, why = names.told(step, rule, rule.approvers)
            if why:
                yield warning(f"route {name}: {one_line(why)}: all its approvers are told", "Mend that.")
            else:
                yield ok(f"route {name}: {one_line(', '.join(sorted(told)))} on call, by {one_line(str(source))}")
            if source.file and not _is_ours(source.file):
                yield warning(
                    f"route {name}: {one_line(source.file)} says who is told, and agents may be allowed to write there",
                    f"Keep it below {config_folder()}, which every shipped policy protects.",
                )


def _is_ours(path: str) -> bool:
    """Tell whether a file lies where no shipped policy lets an agent write."""
    real = os.path.realpath(os.path.expanduser(path))
    ours = (os.path.realpath(folder) for folder in (config_folder(), MACHINE_FOLDER))
    return any(real.startswith(f"{folder}/") for folder in ours)


def named(context: Context) -> Iterator[Finding]:
    """Every route that a policy names is there."""
    from humanlayer_agent.errors import PolicyError
    from humanlayer_agent.policy.language.routes import name_of, unknown_routes

    try:
        known, layers = context.authority.routes, context.layers
    except (ConfigError, PolicyError):
        return
    wrong = {(name_of(rule), rule.origin) for _, rule in unknown_routes([layer.policy for layer in layers], known)}
    for route, origin in sorted(wrong):
        yield failed(
            f"{origin}: it names the route {route}, and there is none: agents don't start",
            f"Add it under routes in {config_folder() / 'channels.yaml'}.",
        )
    if not wrong:
        yield ok("every route that the policies name is there")


def mails(context: Context) -> Iterator[Finding]:
    """Each mail channel's `public_url` is that of a web channel."""
    try:
        channels = context.profiles.channels
    except ConfigError:
        return
    served = {name: each.public_url or f"http://{each.listen}" for name, each in channels.items() if each.type == "web"}
    for name, each in channels.items():
        if each.type != "email" or not each.public_url:
            continue
        at = [web for web, url in served.items() if _same_place(url, each.public_url)]
        if at:
            yield ok(f"channel {name}: the links in its mails lead to the pages of channel {at[0]}")
        elif served:
            where = ", ".join(f"{web} is at {url}" for web, url in served.items())
            yield failed(
                f"channel {name}: the links in its mails lead to {each.public_url}, and {where}",
                "Give both the same public_url.",
            )
        else:
            yield failed(
                f"channel {name}: the links in its mails lead to {each.public_url}, and no channel serves pages there",
                f"Add under channels: web: {{type: web, public_url: {each.public_url}}}",
            )


def _same_place(one: str, other: str) -> bool:
    first, second = (urlsplit(url.rstrip("/")) for url in (one, other))
    return (first.scheme, first.netloc.lower(), first.path) == (second.scheme, second.netloc.lower(), second.path)


def _fingerprint() -> str:
    from humanlayer_agent.keys.signing import Signer

    return Signer(key_path()).fingerprint


def _unreachable(context: Context, name: str) -> str:
    """Return why nobody is reached by a channel; "" where somebody may be."""
    from humanlayer_agent.channels.settings import secret_variables

    channel = context.profiles.channels[name]
    if channel.type not in ("terminal", *FACTORIES):
        return f"this version has no channel of type {channel.type}"
    missing = [variable for _, variable in secret_variables(channel) if not context.environ.get(variable)]
    return f"{', '.join(missing)} not set" if missing else ""


def _unanswerable(context: Context, rule: "ApprovalRule") -> str:
    """Return why what this user's agents ask could not be approved; "" where it could."""
    from humanlayer_agent.approvals.authority import head_count

    able = head_count(context.authority.may_answer(rule, context.requester))
    if able >= rule.quorum:
        return ""
    return f"what your agents ask needs {rule.quorum} approvals, and the people who may give one are {able}"


def _people(rule: "ApprovalRule") -> str:
    return one_line(", ".join(rule.approvers)) or "who started the run"
