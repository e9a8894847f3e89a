"""Code in other languages than bash: which language a file is in, and what its code does."""

import posixpath
import re
from collections.abc import Callable, Sequence
from importlib import import_module

from humanlayer_agent.shell.languages.behaviour import MOST_STEPS, Behaviour, Found, Text

__all__ = ["Behaviour", "Found", "Text", "language_of", "read"]

SHELLS = {"sh": "sh", "bash": "bash", "dash": "sh", "ash": "sh", "ksh": "sh"}
_SHEBANG = re.compile(r"#![ \t]*([^\s]+)(?:[ \t]+([^\n]*))?")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_ENDINGS = {
    ".py": "python", ".pyw": "python", ".sh": "bash", ".bash": "bash", ".ipynb": "notebook", ".mk": "make",
    ".mak": "make", ".awk": "awk", ".sed": "sed", ".jq": "jq", ".bats": "bash", ".command": "bash",
    ".cmake": "cmake", ".ini": "settings", ".cfg": "settings",
}  # fmt: skip
_SETTINGS = frozenset(
    str.split(
        """
        .babelrc .babelrc.json .bandit .c8rc.json .clang-tidy .coveragerc .coveragerc.toml .cspell.json
        .djlintrc .eslintrc .eslintrc.json .eslintrc.yaml .eslintrc.yml .flake8 .flaskenv .golangci.toml
        .golangci.yaml .golangci.yml .hlint.yaml .isort.cfg .justfile .lcovrc .lintstagedrc .lintstagedrc.json
        .markdownlint-cli2.jsonc .markdownlint-cli2.yaml .markdownlint.json .markdownlint.jsonc
        .markdownlint.yaml .mocharc.json .mocharc.yaml .mocharc.yml .mypy.ini .npmrc .nycrc .nycrc.json
        .pdm.toml .perltidyrc .phpcs.xml .prettierrc .prettierrc.json .prettierrc.toml .prettierrc.yaml
        .prettierrc.yml .proverc .pylintrc .pylintrc.toml .pytest.ini .pytest.toml .rubocop.yml .ruff.toml
        .sqlfluff .stylelintrc .stylelintrc.json .stylelintrc.yml .swcrc .taplo.toml .taprc .tflint.hcl
        BUILD.bazel CMakeCache.txt CMakePresets.json CMakeUserPresets.json Directory.Build.props
        Directory.Build.rsp Directory.Build.targets Doxyfile Gemfile Gruntfile.js Justfile MODULE.bazel
        Makefile.toml Pipfile Procfile Rakefile Taskfile.yaml Taskfile.yml WORKSPACE _config.yml alembic.ini
        angular.json ava.config.json babel.config.json behat.yaml behat.yml biome.json biome.jsonc book.toml
        build.rs build.xml build.zig bunfig.toml codeception.yml composer.json cspell.json cypress.json
        deno.json deno.jsonc djlint.toml dub.json gcovr.cfg global.json gradle.properties gulpfile.js hatch.toml
        hugo.json hugo.toml hugo.yaml infection.json infection.json5 init.gradle init.gradle.kts
        jest.config.json jsconfig.json justfile knip.json meson.build meson_options.txt mkdocs.yml mypy.ini
        nextest.toml nodemon.json nx.json pdm.toml phpcs.xml phpcs.xml.dist phpstan.dist.neon phpstan.neon
        phpstan.neon.dist phpunit.dist.xml phpunit.xml phpunit.xml.dist pint.json pnpm-workspace.yaml
        poetry.toml project.json psalm.xml psalm.xml.dist pylintrc pylintrc.toml pyproject.toml
        pyrightconfig.json pytest.ini pytest.toml ruff.toml setup.cfg shard.yml taplo.toml taskfile.yml tox.ini
        tox.toml tsconfig.json typedoc.json uv.toml xo.config.json zola.toml
        """
    )
)
"""Files with settings of tools: see `tool_settings`."""
_NAMES = {
    "Makefile": "make", "makefile": "make", "GNUmakefile": "make", "package.json": "npm", "configure": "sh",
    "SConstruct": "python", "SConscript": "python", "wscript": "python", ".envrc": "bash", ".bashrc": "bash",
    ".bash_profile": "bash", ".bash_login": "bash", ".bash_logout": "bash", ".bash_aliases": "bash", ".profile": "sh",
    "CMakeLists.txt": "cmake", ".gitattributes": "gitattributes",
    **dict.fromkeys(_SETTINGS, "settings"),
    ".xprofile": "sh", ".xinitrc": "sh", ".xsessionrc": "sh",
}  # fmt: skip
"""Files that a program or a person runs by their name, and what they are written in."""
_CODE_OF_TOOLS = re.compile(
    r"(?:\.?(?:eslint|jest|vite|vitest|webpack|rollup|babel|prettier|postcss|tailwind|stylelint|commitlint|playwright|cypress"
    r"|karma|nuxt|next|svelte|astro|metro|tsup|esbuild|lint-staged|release|mocha|nyc|ava|c8)(?:rc|\.config|\.workspace)"
    r"|gulpfile|Gruntfile)\.(?:[cm]?[jt]sx?|json[c5]?|ya?ml|toml)|\.postcssrc",
    re.ASCII,
)
"""Settings of tools that node runs: code in JavaScript, or what names such code."""
_TEMPLATES = (
    ".am", ".in", ".PL", ".j2", ".tmpl", ".template", ".md", ".txt", ".rst", ".bak", ".orig", ".patch", ".diff",
)  # fmt: skip
_KEPT = frozenset({".bak", ".orig", ".old", ".new", ".tmp", ".save", ".backup", ".copy", ".patched"})
"""Endings of copies that are meant to be put back."""
_HOOKS = "/.git/hooks/", "/.husky/", "/.githooks/", "/etc/profile.d/"


_WHOLE = {
    "make": "make:whole",
    "npm": "package_json:whole",
    "notebook": "notebook:whole",
    "awk": "filters:awk",
    "sed": "filters:sed",
    "jq": "filters:jq",
    "settings": "tool_settings:whole",
    "gitattributes": "tool_settings:attributes",
    "variables": "tool_settings:variables",
    "cmake": "cmake:whole",
    "doctest": "doctests:whole",
    "c-source": "inclusions:source",
    "document": "inclusions:document",
    "manual-page": "inclusions:page",
    "plantuml": "inclusions:diagram",
    "sqlite": "sql.clients:sqlite",
    "psql": "sql.clients:psql",
    "mysql": "sql.clients:mysql",
}
"""Readers of files that are judged as a whole: all that they may do, whoever runs them."""


Whole = Callable[[str, "str | None", "Callable[[str], Found] | None"], Behaviour]
"""A reader: the text, the file's path, and what gives the files that it includes."""


def language_of(path: str, text: str) -> str | None:
    """The language that the file at `path` is run in: by its first line, else by its name; None where neither tells."""
    return interpreter(text) or by_name(path)


def by_name(path: str) -> str | None:
    """The language that a file's name tells; None where it is no code."""
    name = posixpath.basename(path)
    while (kept := posixpath.splitext(name))[1] in _KEPT and kept[0]:
        name = kept[0]
    if name in _NAMES:
        return _NAMES[name]
    if _CODE_OF_TOOLS.fullmatch(name):
        return "settings"
    if (name.startswith(("tsconfig.", "jsconfig.")) and name.endswith(".json")) or name.endswith(".runsettings"):
        return "settings"
    if "." not in name and any(part in path for part in _HOOKS):
        return "sh"
    if name.startswith(("Makefile.", "makefile.", "GNUmakefile.")) and not name.endswith(_TEMPLATES):
        return "make"
    return _ENDINGS.get(posixpath.splitext(name)[1])


def interpreter(text: str) -> str | None:
    """The language of a `#!` line: "python", "bash", "sh", or the name of another program; None without one."""
    found = _SHEBANG.match(text)
    if found is None:
        return None
    words = [found[1], *(found[2] or "").split()]
    if posixpath.basename(words[0]) == "env":
        words = [w for w in words[1:] if not w.startswith("-") and "=" not in w] or [""]
    name = posixpath.basename(words[0])
    return "python" if _PYTHON.fullmatch(name) else SHELLS.get(name, name)


def read(
    language: str,
    text: str,
    *,
    argv: Sequence[Text] | None = None,
    path: str | None = None,
    files: Callable[[str], Found] | None = None,
    steps: int = MOST_STEPS,
) -> Behaviour | None:
    """What `text` does when it is run; None where nobody here reads this language.

    Args:
        language: as `language_of` gives it, but no shell: a shell's text is analysed as commands are.
        argv: the words it is started with, the script's own name first, where they are known.
        path: the absolute path of the file, where it is one.
        files: gives the files that this one includes, by absolute path.
        steps: how many may be taken to follow it.
    """
    if language == "python":
        from humanlayer_agent.shell.languages import python

        return python.read(text, argv=argv, path=path, steps=steps)
    if language in ("javascript", "typescript"):
        reader = import_module(f"{__name__}.javascript")
        found: Behaviour = reader.read(text, argv=argv, path=path, typed=language == "typescript", steps=steps)
        return found
    if language in _WHOLE:
        return _whole(language)(text, path, files)
    return None


def _whole(language: str) -> Whole:
    """The reader of a language in which a file says all, whichever words it is given."""
    module, _, function = _WHOLE[language].partition(":")
    found: Whole = getattr(import_module(f"{__name__}.{module}"), function)
    return found
