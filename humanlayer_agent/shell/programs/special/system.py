"""Programs that show or change the system, told apart by a verb or the number of words: systemctl, date, mount.

Programs whose words are data, whatever they look like: echo, printf, test, sleep.
"""

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_SHOWS = frozenset(
    str.split(
        """
        status show cat help is-active is-enabled is-failed is-system-running get-default list-units
        list-unit-files list-timers list-sockets list-dependencies list-jobs list-machines list-paths
        list print info session-status user-status list-sessions list-users show-session
        show-user timesync-status show-timesync list-timezones describe blame dump
        """
    )
)
_OUTLASTS = frozenset(
    str.split(
        """
        enable disable mask unmask link edit preset set-default add-wants add-requires reenable revert
        """
    )
)
_ONLY_SHOWS = frozenset({"-l", "--list", "-V", "--version", "--help", "-h", "--show", "-n", "--json", "-J", "-p"})


def system(command: SimpleCommand, role: str, operand: str) -> None:
    """Note a change of the system."""
    command.effects.append(Effect("system", role, operand, True, command.span, command.program or ""))


def service(run: Run, spec: Spec, fields: list[Field]) -> None:
    """systemctl VERB SERVICE; service SERVICE VERB."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    texts = [o.text for o in arguments.operands]
    run.command.operands += texts
    if any(t is None for t in texts):
        run.doubt(run.command.text)
    reverse = run.command.program in ("service", "rc-service")
    verb = (texts[1] if len(texts) > 1 else None) if reverse else (texts[0] if texts else None)
    run.command.subcommand = verb
    if (verb is None and len(texts) < 2) or verb in _SHOWS:
        return
    names = (texts[:1] if reverse else texts[1:]) or [verb]
    for name in names:
        run.effect("system", "service", name, name is not None, run.command.span, run.command.program or "")
        if verb in _OUTLASTS:
            run.effect("persist", "service", name, name is not None, run.command.span, run.command.program or "")


def setting(run: Run, spec: Spec, fields: list[Field]) -> None:
    """date, hostname: an operand sets what they otherwise print. timedatectl and its like take a verb."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    texts = [o.text for o in arguments.operands]
    run.command.operands += texts
    program = run.command.program or ""
    if program == "date":
        if "set" in run.command.flags or any(o.many or not o.prefix.startswith("+") for o in arguments.operands):
            system(run.command, "setting", "clock")
    elif program == "hostname":
        if "set" in run.command.flags or texts:
            system(run.command, "setting", "hostname")
    elif program == "hwclock":
        if run.command.flags - {"show", "version", "several"}:
            system(run.command, "setting", "clock")
    elif texts and texts[0] not in _SHOWS:
        system(run.command, "setting", "clock" if program == "timedatectl" else program)


def sysctl(run: Run, spec: Spec, fields: list[Field]) -> None:
    """sysctl NAME prints, NAME=VALUE sets."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    for each in arguments.operands:
        if each.text is None or "=" in each.text or "write" in run.command.flags:
            spec_reader.note(run, "system", each, origin="sysctl operand")


def device(run: Run, spec: Spec, fields: list[Field]) -> None:
    """mount, mkfs, fdisk ...: with an operand, or any option that does not only show something, they change devices."""
    operands = [f for f in fields if f.text is None or not f.text.startswith("-")]
    run.command.operands += [o.text for o in operands]
    if not operands and all(f.text in _ONLY_SHOWS for f in fields):
        return
    system(run.command, "device", run.command.program or "device")
    for n, each in enumerate(operands, 1):
        if each.text is None or each.text.startswith(("/", ".")):
            run.path("write", each, role="device", origin=f"{run.command.program} operand {n}")


def ps(run: Run, spec: Spec, fields: list[Field]) -> None:
    """ps: the BSD option e (in a word without a dash) and the column `environ` print other programs' environments."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    columns = run.command.options.get("format", [])
    for each in arguments.operands:
        if each.text is None:
            run.doubt(each.word.raw)
        elif each.text.isalpha():
            letters, _, format_ = each.text.partition("o")
            if "e" in letters or "environ" in format_:
                run.printed("environment", each, origin="ps e")
    if any(c is None or "env" in c for c in columns):
        run.printed("environment", None, origin="ps environ")


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note the words as operands; they have no effect."""
    run.command.operands += [f.text for f in fields]
