"""Coding agents: each with the form of its hook, how it is told yes, no and ask, where its settings are, and what it
can't do. The one table of them, for the hook, `hla init` and `hla doctor`; what their tools do is data (see `tools`).

The process that an agent starts before each of its calls loads this, so it imports nothing.
"""

PRE_TOOL_USE = {
    "event": "hook_event_name",
    "name": "tool_name",
    "inputs": "tool_input",
    "session": "session_id",
    "call": "tool_use_id",
    "cwd": "cwd",
    "mode": "permission_mode",
    "subagent": "agent_type",
}
"""Where a question says what, in the form that most agents have."""


WAITS_S = 590
"""Seconds in which a human can answer."""
USUAL_S = 50
LATER_S = 10
"""The agent waits so many seconds longer than the hook."""


class CodingAgent:
    """A coding agent.

    Attributes:
        name: what `hla hook` calls it, and the agent's name in the log.
        title: what people call it.
        event: the hook event that is answered; "" where its questions name none.
        also: other events that are answered, which tell of a call once more, or of one of which `event` is not told:
            each with the name of the tool ({} is what the question calls it), and the fields of the question that it is
            given; where there are none, those are where they always are.
        fields: where its questions say what; a point leads into an object.
        form: how it is answered; see `REFUSALS`.
        asks: what may become of what the policy asks about, the usual one first: tool (its own prompt), wait (for the
            channels here), deny.
        prompts: the permission modes in which its own prompt is there. It is not there in a mode that we don't know.
        ends: it ends its work where it is told to.
        project: the environment variable with the project's directory.
        sets_project: it sets that variable itself; else the line of the hook does.
        shells: environment variables that name the shell it runs commands with, the first that is set counts. None: it
            always uses bash.
        around: environment variables that name what runs with every command (a wrapper, a file that is sourced first).
        after: the hook events by which it says that a call has ended: the first well, any other not. Older versions
            know the first alone.
        replaceable: the permission modes in which a command may be replaced by one that runs confined; a mode that we
            don't know may mean that nothing is to run, or something else than we think.
        edits: it takes another command in the place of one that was proposed.
        rewrites: a command that is allowed is given back as one for bash (`bash_command`), since its agent may choose
            the shell of each command.
        folder: of its settings, in the user's home.
        in_projects: that of a project's own settings; "" where these don't count, or are not looked at.
        files: its settings, in that folder; the first is the one that our hook stands in.
        hooks: where else its hooks stand, as a pattern of names in that folder.
        variable: the environment variable that names another folder for the user's settings.
        entry: how our hook stands there: matcher, bash or command (an entry in a list), or a file of its own (plugin).
        closed: what in our entry has it refuse a call where a hook fails or is late; "" where nothing has.
        overruled: the answers of a project's own hooks, and of the machine's, count before ours.
        by_code: a denial is said by the exit code too.
        longest: seconds after which it goes on without an answer, whatever its settings say; 0: they say.
        timeout: the name of the time after which it goes on without an answer, and how many of its unit a second has.
        off: what in its settings switches all hooks off: the file ("": each of `files`), the name (a point leads into
            an object), and its value.
        trust: it skips hooks that its user has not looked at, without a word; how they do that.
        rules: the folder of its own rules, which don't see a command that is given back.
        servers: where the MCP servers stand that it starts: the file, in those folders, and the name in it (a point
            leads into an object, * into each).
        lacks: what it can't do, each as a sentence without its full stop.
        untried: why nobody can say that its hook is obeyed; "" where that was seen with the program itself.
    """

    def __init__(
        self,
        name: str,
        title: str,
        *,
        event: str,
        form: str,
        project: str,
        folder: str,
        files: tuple[str, ...],
        entry: str,
        fields: dict[str, str] = PRE_TOOL_USE,
        also: dict[str, tuple[str, tuple[str, ...]]] | None = None,
        asks: tuple[str, ...] = ("deny", "wait"),
        prompts: frozenset[str] = frozenset(),
        ends: bool = False,
        sets_project: bool = True,
        shells: tuple[str, ...] = (),
        around: tuple[str, ...] = (),
        after: tuple[str, ...] = (),
        replaceable: frozenset[str] = frozenset(),
        edits: bool = True,
        rewrites: bool = False,
        variable: str = "",
        in_projects: str = "",
        hooks: str = "",
        timeout: tuple[str, int] = ("timeout", 1),
        longest: int = 0,
        off: tuple[tuple[str, str, bool], ...] = (),
        trust: str = "",
        rules: str = "",
        lacks: tuple[str, ...] = (),
        closed: str = "",
        overruled: bool = False,
        by_code: bool = False,
        untried: str = "",
        servers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.name, self.title, self.event, self.form, self.fields = name, title, event, form, fields
        self.also = also or {}
        self.project, self.sets_project, self.shells, self.around = project, sets_project, shells, around
        self.asks, self.prompts, self.ends, self.after = asks, prompts, ends, after
        self.replaceable, self.edits, self.rewrites = replaceable, edits, rewrites
        self.folder, self.files, self.variable, self.rules = folder, files, variable, rules
        self.in_projects, self.hooks = in_projects, hooks
        self.entry, self.timeout, self.longest, self.off = entry, timeout, longest, off
        self.trust, self.lacks, self.untried, self.servers = trust, lacks, untried, servers
        self.closed, self.overruled, self.by_code = closed, overruled, by_code

    @property
    def events(self) -> tuple[str, ...]:
        """The hook events that are answered, as its settings name them."""
        return (self.event or "preToolUse", *self.also)

    @property
    def confines(self) -> bool:
        """Tell whether its commands can be replaced by ones that run confined."""
        return bool(self.replaceable)

    def seconds(self, ask: str) -> int:
        """Return after how many seconds a call is refused: before the agent goes on without an answer."""
        usual = WAITS_S if ask == "wait" else USUAL_S
        return min(usual, self.longest - LATER_S) if self.longest else usual

    @property
    def option(self) -> str:
        """The option of `hla init` that puts our hook into its settings."""
        return f"--{self.name}"


_SETTINGS = ("settings.json", "settings.local.json")
_CLAUDE_SERVERS = ("mcpServers", "projects.*.mcpServers")
_NO_PROMPT = "its user can't be asked by it: what the policy asks about is denied, or waits for your channels"
_UNCONFINED = "its commands can't be confined by the hook"

AGENTS = {
    agent.name: agent
    for agent in (
        CodingAgent(
            # https://code.claude.com/docs/en/hooks
            "claude-code",
            "Claude Code",
            event="PreToolUse",
            form="pre-tool-use",
            asks=("tool", "wait", "deny"),
            # bypassPermissions and dontAsk ask nobody, auto denies, and of a mode that we don't know we can't tell
            prompts=frozenset({"default", "acceptEdits", "plan"}),
            ends=True,
            project="CLAUDE_PROJECT_DIR",
            shells=("CLAUDE_CODE_SHELL", "SHELL"),
            around=("CLAUDE_CODE_SHELL_PREFIX", "CLAUDE_ENV_FILE"),  # https://code.claude.com/docs/en/env-vars
            after=("PostToolUse", "PostToolUseFailure"),
            replaceable=frozenset({"default", "acceptEdits", "bypassPermissions", "dontAsk"}),
            folder=".claude",
            in_projects=".claude",
            files=_SETTINGS,
            variable="CLAUDE_CONFIG_DIR",
            entry="matcher",
            off=(("", "disableAllHooks", True),),
            # beside its folder in the user's home, in it where CLAUDE_CONFIG_DIR names another, beside the project's
            servers=(
                *((f"{place}.claude.json", name) for place in ("../", "") for name in _CLAUDE_SERVERS),
                ("../.mcp.json", "mcpServers"),
            ),
        ),
        CodingAgent(
            # https://geminicli.com/docs/hooks/reference
            "gemini-cli",
            "Gemini CLI",
            event="BeforeTool",
            form="decision",
            ends=True,
            project="GEMINI_PROJECT_DIR",
            folder=".gemini",
            in_projects=".gemini",
            files=_SETTINGS,
            entry="matcher",
            timeout=("timeout", 1000),
            off=(("", "hooksConfig.enabled", False),),
            servers=(("settings.json", "mcpServers"),),
            lacks=(_NO_PROMPT, _UNCONFINED),
        ),
        CodingAgent(
            # https://developers.openai.com/codex/hooks
            "codex",
            "Codex",
            event="PreToolUse",
            form="pre-tool-use",
            project="CODEX_PROJECT_DIR",
            sets_project=False,
            rewrites=True,
            folder=".codex",
            in_projects=".codex",
            files=("hooks.json", "config.toml"),
            variable="CODEX_HOME",
            entry="matcher",
            off=(("config.toml", "features.hooks", False), ("config.toml", "features.codex_hooks", False)),
            servers=(("config.toml", "mcp_servers"),),
            trust="start it, and see that /hooks lists ours as trusted",
            rules="rules",
            lacks=(
                _NO_PROMPT,
                _UNCONFINED,
                "it goes on asking after hla stop, and is denied each time",
                "its agent may type into what runs, and no hook hears of it",
            ),
        ),
        CodingAgent(
            # https://docs.github.com/en/copilot/reference/hooks-reference
            "copilot",
            "Copilot CLI",
            event="",
            form="permission-decision",
            fields={"name": "toolName", "inputs": "toolArgs", "session": "sessionId", "cwd": "cwd"},
            asks=("tool", "wait", "deny"),
            prompts=frozenset({"default"}),
            project="COPILOT_PROJECT_DIR",
            folder=".copilot",
            files=("hooks/humanlayer-agent.json",),
            hooks="hooks/*.json",
            variable="COPILOT_HOME",
            entry="bash",
            timeout=("timeoutSec", 1),
            off=(("settings.json", "disableAllHooks", True), ("config.json", "disableAllHooks", True)),
            servers=(("mcp-config.json", "mcpServers"),),
            lacks=(_UNCONFINED, "it goes on asking after hla stop, and is denied each time"),
        ),
        CodingAgent(
            # https://opencode.ai/docs/plugins
            "opencode",
            "OpenCode",
            event="tool.execute.before",
            form="plugin",
            project="OPENCODE_PROJECT_DIR",
            sets_project=False,
            rewrites=True,  # its settings, a project's too, name the shell
            folder=".config/opencode",
            files=("plugins/humanlayer-agent.js",),
            servers=(("opencode.json", "mcp"),),
            entry="plugin",
            lacks=(_NO_PROMPT, _UNCONFINED, "it goes on asking after hla stop, and is denied each time"),
        ),
        CodingAgent(
            # https://docs.cline.bot/features/hooks
            "cline",
            "Cline",
            event="tool_call",
            form="cancel",
            fields={
                "event": "hookName",
                "name": "tool_call.name",
                "inputs": "tool_call.input",
                "session": "sessionContext.rootSessionId",
                "call": "tool_call.id",
            },
            project="CLINE_PROJECT_DIR",
            sets_project=False,
            edits=False,
            longest=120,
            folder=".cline",
            files=("hooks/PreToolUse",),
            entry="plugin",
            lacks=(
                _NO_PROMPT,
                _UNCONFINED,
                "a call that is denied ends its task",
                "a human can't change a command",
                "nobody is waited for longer than two minutes: then it would go on by itself",
            ),
        ),
        CodingAgent(
            # https://cursor.com/docs/hooks
            "cursor",
            "Cursor",
            event="preToolUse",
            # Which of them it tells of a call depends on its version, and on whether it is the editor.
            also={
                "beforeShellExecution": ("Shell", ("command",)),
                "beforeMCPExecution": ("MCP:{}", ()),
                "beforeReadFile": ("Read", ("file_path",)),
            },
            form="permission",
            fields={
                "event": "hook_event_name",
                "name": "tool_name",
                "inputs": "tool_input",
                "session": "conversation_id",
                "call": "tool_use_id",
                "cwd": "cwd",
            },
            project="CURSOR_PROJECT_DIR",
            shells=("SHELL",),
            edits=False,
            folder=".cursor",
            in_projects=".cursor",
            files=("hooks.json", "/etc/cursor/hooks.json"),
            hooks="hooks.json",
            entry="command",
            closed="failClosed",
            overruled=True,
            by_code=True,
            servers=(("mcp.json", "mcpServers"),),
            untried="it was made from the documentation, which has these hooks from version 2.4 on",
            lacks=(
                "nobody has tried its hook with the program itself",
                "its user is not asked by it, since that is said not to hold: what the policy asks about is denied, or "
                "waits for your channels",
                _UNCONFINED,
                "a human can't change a command",
                "it goes on asking after hla stop, and is denied each time",
                "its agents in the cloud, and completions while you type, ask no hook of yours",
            ),
        ),
    )
}
"""Every coding agent that can be answered, by name."""

_PRE_TOOL_USE = (
    '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", '
    '"permissionDecisionReason": %s}'
)
REFUSALS = {
    "pre-tool-use": _PRE_TOOL_USE,
    "decision": '{"decision": "deny", "reason": %s',
    "permission-decision": '{"permissionDecision": "deny", "permissionDecisionReason": %s',
    "plugin": '{"decision": "deny", "reason": %s',
    "cancel": '{"cancel": true, "errorMessage": %s',
    "permission": '{"permission": "deny", "user_message": %s, "agent_message": %s',
}
"""How no is said in each form, with the reason, and without the brace at its end."""
