"""`hla hook TOOL`: answers a coding agent before each of its calls. The exit code is 0 or 2, whatever happens."""

from humanlayer_agent.hooks import client
from humanlayer_agent.hooks.coding_agents import AGENTS, LATER_S

_OPTIONS = {"--ask", "--policy", "--channels", "--deadline"}


def main(argv: list[str]) -> int:
    """Run `hook`; returns the exit code. (By hand: this runs before every call of an agent.)"""
    tool = argv[0] if argv else ""
    if tool in ("-h", "--help"):
        from humanlayer_agent.cli.app import run_app

        return run_app(["hook", "--help"])
    try:
        ask, seconds, options = _parsed(tool, argv[1:])
    except ValueError as error:
        return client.refuse(tool, f"{error} (hla hook --help)")
    return client.run(tool, ["--ask", ask, "--seconds", str(seconds), *options], seconds)


def _parsed(tool: str, arguments: list[str]) -> tuple[str, float, list[str]]:
    agent = AGENTS.get(tool)
    if agent is None:
        raise ValueError(f"hla hook: the tool must be one of {', '.join(AGENTS)}")
    given: dict[str, str] = {}
    confine = arguments.count(client.CONFINE) == 1
    if confine and not agent.confines:
        raise ValueError(f"hla hook: {client.CONFINE} is not offered for {tool}")
    arguments = [each for each in arguments if each != client.CONFINE] if confine else arguments
    for at in range(0, len(arguments), 2):
        name, value = arguments[at], arguments[at + 1 : at + 2]
        if name not in _OPTIONS or not value or name in given:
            raise ValueError(f"hla hook: {name} can not be used so")
        given[name] = value[0]
    ask = given.pop("--ask", agent.asks[0])
    if ask not in agent.asks:
        raise ValueError(f"hla hook: --ask must be one of {', '.join(agent.asks)} for {tool}")
    seconds = float(given.pop("--deadline", agent.seconds(ask)))
    if not 0 < seconds <= 86_400:
        raise ValueError("hla hook: --deadline must be a number of seconds, at most a day")
    if agent.longest and seconds > agent.longest - LATER_S:
        raise ValueError(
            f"hla hook: {agent.title} goes on after {agent.longest} seconds: --deadline must be below that"
        )
    return ask, seconds, [part for pair in given.items() for part in pair] + [client.CONFINE] * confine
