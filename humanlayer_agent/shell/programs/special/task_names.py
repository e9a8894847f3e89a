"""Tasks and settings that build tools are given by name: which are the project's own work, and which reach beyond it.

A table says it for each tool: the first pattern that a text matches as a whole decides. What none matches is not
guessed: it is unresolved. Sources: the manuals of Maven (its plug-ins too), Gradle, sbt, mix, rails, artisan.
"""

import re

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run

_PROJECT = "project"
"""The project's own code does it."""
_MAVEN = (
    (r"help:system", "code"),  # prints the environment
    (
        r"(?:pre-|post-)?(?:clean|site)|validate|initialize|(?:generate|process)-(?:test-)?(?:sources|resources|classes)"
        r"|(?:test-)?compile|test|prepare-package|package|(?:pre-|post-)?integration-test|verify|install",
        _PROJECT,
    ),
    (
        r"(?:dependency:(?:tree|list|analyze|analyze-only|build-classpath|resolve|resolve-plugins|go-offline)|help:[\w-]+"
        r"|(?:surefire|failsafe|checkstyle|spotless|spotbugs|jacoco|javadoc|fmt|pmd|compiler|resources|enforcer|jar|ktlint"
        r"|formatter|license|checker|pitest|animal-sniffer|detekt|impsort|sortpom):[\w-]+|exec:java|spring-boot:(?:run|test-run|repackage|build-info)"
        r"|quarkus:(?:dev|test|build)|versions:(?:display-[\w-]+|set|commit|revert)|clean:clean|site:site)",
        _PROJECT,
    ),
    (r"deploy|site-deploy|.*:(?:deploy|release|perform|prepare|push|stage|publish)", "network"),
    (r"(?:exec|antrun|groovy|gmaven|gmavenplus|scala|jruby|frontend):.*", "code"),
    (r"[\w.-]+:[\w.-]+:[\w.:-]+", "package"),
)
_SETTINGS_OF_MAVEN = (
    (r"expression=.*env.*", "code"),
    (
        r"(?:test|it\.test|skipTests|skipITs|skipUTs|maven\.test\.(?:skip|failure\.ignore)|failIfNoTests|failIfNoSpecifiedTests"
        r"|(?:surefire|failsafe)\.(?!jvm|argLine|exec|class|additional|debug|\w*[Dd]irectory)\w+|exec\.mainClass|includes|excludes|expression|forceStdout|style\.color|[\w.-]+\.skip"
        r"|revision|groups|excludedGroups|verbose|detail|parallel|threadCount|forkCount|reuseForks|maven\.compiler\.(?!executable|fork|proc|plugin|\w*[Aa]rg|\w*[Dd]ir)\w+"
        r"|project\.build\.sourceEncoding|trimStackTrace|newVersion|generateBackupPoms|includeScope|scope|spotless\.check\.skip"
        r"|spring-boot\.run\.profiles|spring\.profiles\.active|quick|fast|skip\w*|checkstyle\.\w+|jacoco\.skip|gpg\.skip)(?:=.*)?",
        _PROJECT,
    ),
    (r".*", "code"),
)
_GRADLE = (
    (
        r"publishToMavenLocal|:?(?:[\w-]+:)*(?:publish|upload|deploy|release|push|sign|closeAnd|bintray|artifactory)\w*",
        "network",
    ),
    (r":?[A-Za-z_][\w.-]*(?::[\w.-]+)*", _PROJECT),
)
_SETTINGS_OF_GRADLE = (
    (
        r"(?:test\.\w+|[\w.]*\.single|file\.encoding|org\.gradle\.(?:daemon|parallel|caching|workers\.max|console|logging\.level"
        r"|configureondemand|warning\.mode|vfs\.watch|unsafe\.\w+)|spring\.profiles\.active|user\.(?:language|country|timezone))(?:=.*)?",
        _PROJECT,
    ),
    (r".*", "code"),
)
_SBT = (
    (
        r"(?:\+?(?:[\w-]+ ?/ ?)*(?:(?:test|it|Test|IntegrationTest|Compile)(?::| ?/ ?))?"
        r"(?:clean|compile|test|testOnly|testQuick|update|package|doc|run|runMain|scalafmt\w*|scalafix\w*|dependencyTree|mimaReport\w*"
        r"|mimaCheck\w*|headerCheck\w*|headerCreate\w*|coverage\w*|assembly|stage|javafmt\w*|jmh:run|tasks|settings|projects"
        r"|version|name|scalaVersion|evicted|reload|exit|undeclaredCompileDependencies)"
        r"|project [\w-]+|show (?!.*(?:sys|env))[\w ./:-]+|inspect [\w ./:-]+|help)(?: [^;!\n]*)?",
        _PROJECT,
    ),
    (r".*publish.*|.*release.*", "network"),
    (r"(?s).*", "code"),
)
_MIX = (
    (
        r"test|compile|format|credo|dialyzer|deps\.tree|deps|help|xref|clean|docs|ecto\.(?:create|migrate|migrations|rollback|gen\.\w+)"
        r"|phx\.(?:routes|gen\.[\w.]+|digest|server)|app\.start|app\.tree|sobelow|coveralls|loadpaths|loadconfig|gettext\.\w+|assets\.(?:build|deploy)"
        r"|lint|check|setup\.test|compile\.\w+|deps\.compile|deps\.loadpaths|hex\.outdated|test\.\w+|version",
        _PROJECT,
    ),
    (r"deps\.(?:get|update|clean|unlock)|local\..*|archive\..*|escript\..*|hex\..*|setup|igniter\..*", "package"),
    (r"(?s).*", "code"),
)
_RAILS = (
    (
        r"test(?:[:\w]*)?|spec(?:[:\w]*)?|routes|db:(?:migrate|migrate:status|migrate:(?:up|down|redo)|rollback|version|test:\w+|schema:\w+"
        r"|abort_if_pending_migrations|prepare|create|setup)|zeitwerk:check|assets:\w+|stats|notes|about|middleware|initializers"
        r"|tmp:\w+|log:clear|g|generate|-T|--tasks|time:zones(?:[:\w]*)?|app:\w+|factory_bot:lint|rubocop(?::\w+)?|lint|default|build|compile|clean|doc|yard",
        _PROJECT,
    ),
    (r"s|server", "network"),
    (r"(?s).*", "code"),
)
_RAKE = (
    (
        r"(?:release|publish|deploy|push)(?:[:\w]*)?|.*:(?:release|publish|deploy|push).*|db:(?:drop|reset|purge|seed:replant).*",
        "network",
    ),
    (r"[A-Za-z_][\w.:-]*(?:\[[\w.,/ -]*\])?", _PROJECT),
    (r"[A-Z][A-Z0-9_]*=[^$`]*", _PROJECT),
)
_COMPOSER = (
    (
        r"test|tests?:[\w:-]+|lint|phpstan|psalm|cs|cs-fix|cs-check|check|check-style|fix-style|phpcs|phpcbf|phpunit|stan|analyse|analyze|ci|qa|pint|rector|format|build",
        _PROJECT,
    ),
    (r"(?s).*", "code"),
)
_FLAGS = (
    r"(?:\s*(?:-[OgW][\w=-]*|-w|-f(?:no-)?(?:sanitize|sanitize-recover|omit-frame-pointer|PIC|PIE|permissive"
    r"|exceptions|rtti|lto|visibility|stack-protector|diagnostics-color|profile-arcs|test-coverage|coverage-mapping|profile-instr-generate)"
    r"(?:[-=][\w,-]*)?|-std=[\w+]+|-march=[\w-]+|-mtune=[\w-]+|-m\w+|-D\w+(?:=\w*)?|-pthread|--coverage"
    r"|-stdlib=[\w+]+|-pedantic))*\s*"
)
"""Options of C compilers that neither load code nor write files of other names."""
_COMPILERS = r"(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|ccache|sccache)(?:-\d+)?"
_NINJA_AND_MAKE = (
    (
        r"-[jlk] ?\d*|-[ksvw]|VERBOSE=1|V=1|--output-sync|--no-print-directory|--quiet|--silent|\d+|[A-Za-z_][\w./-]*",
        _PROJECT,
    ),
    (r"(?s).*", "code"),
)
_SETTINGS_OF_CMAKE = (
    (
        r"CMAKE_(?:BUILD_TYPE|EXPORT_COMPILE_COMMANDS|VERBOSE_MAKEFILE|POSITION_INDEPENDENT_CODE|UNITY_BUILD"
        r"|CONFIGURATION_TYPES|(?:C|CXX|CUDA)_STANDARD|(?:C|CXX)_EXTENSIONS|CUDA_ARCHITECTURES|OSX_[A-Z_]+|INTERPROCEDURAL_OPTIMIZATION"
        r"|COLOR_[A-Z]+|COMPILE_WARNING_AS_ERROR|INSTALL_(?:PREFIX|LIBDIR|BINDIR|RPATH|MESSAGE)|BUILD_RPATH|SKIP_\w+"
        r"|LINK_WHAT_YOU_USE|POLICY_\w+|DISABLE_FIND_PACKAGE_\w+|REQUIRE_FIND_PACKAGE_\w+|BUILD_PARALLEL_LEVEL|SYSTEM_NAME)(?::\w+)?=.*",
        _PROJECT,
    ),
    (rf"CMAKE_(?:C|CXX)_COMPILER(?:_LAUNCHER)?(?::\w+)?={_COMPILERS}", _PROJECT),
    (
        rf"CMAKE_(?:C|CXX|EXE_LINKER|SHARED_LINKER)_FLAGS(?:_[A-Z]+)?(?::\w+)?={_FLAGS}|(?:c|cpp)_args={_FLAGS}",
        _PROJECT,
    ),
    (r"CMAKE_.*", "code"),
    (
        r"(?!.*(?:_args|PROGRAM|EXECUTABLE|COMMAND|COMPILER|LAUNCHER|TOOLCHAIN|_FLAGS))[A-Za-z][\w.-]*(?::\w+)?"
        r"(?:=[\w.+,;-]*)?",
        _PROJECT,
    ),
    (r"(?s).*", "code"),
)
_WEB = (
    (r"add|update|upgrade|migrate|init|install|new|create|module|sb|link", "package"),
    (r"login|telemetry|codemod|(?:.*:)?(?:deploy|publish)(?::.*)?", "network"),
    (r"(?!.*\.\.)(?:run )?[\w@.-]+(?:/[\w@.*-]+)*/?|(?!\.\.)[\w-]+(?::[\w-]+)+|\d+", _PROJECT),
)
"""Tools that build web pages: a word is a sub-command, a file or a directory of the project."""
_LOGGERS_OF_DOTNET = (
    (
        r"(?:console|trx|html|junit|nunit|xunit|GitHubActions)(?:;(?:verbosity=\w+|LogFileName=[\w.-]+))*"
        r"|(?:XPlat )?Code Coverage(?:;Format=\w+)?",
        _PROJECT,
    ),
)
_TABLES = {
    ("task", "vite"): _WEB,
    ("task", "cmake"): _NINJA_AND_MAKE,
    ("setting", "cmake"): _SETTINGS_OF_CMAKE,
    ("setting", "meson"): _SETTINGS_OF_CMAKE,
    ("task", "dotnet"): ((r"install|uninstall|update|search", "package"), (r"[\w.-]+", _PROJECT)),
    ("setting", "dotnet"): _LOGGERS_OF_DOTNET,
    ("task", "mvn"): _MAVEN,
    ("setting", "mvn"): _SETTINGS_OF_MAVEN,
    ("task", "gradle"): _GRADLE,
    ("setting", "gradle"): _SETTINGS_OF_GRADLE,
    ("task", "sbt"): _SBT,
    ("task", "mix"): _MIX,
    ("task", "rails"): _RAILS,
    ("task", "rake"): _RAKE,
    ("task", "composer"): _COMPOSER,
}
_SAME = {
    **dict.fromkeys(
        str.split("next webpack rollup ng nuxt astro svelte-check tsup esbuild swc babel parcel remix storybook"),
        "vite",
    ),
    "mvnw": "mvn",
    "mvnd": "mvn",
    "gradlew": "gradle",
}


def _patterns(slot: str, program: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    table = _TABLES[slot, _SAME.get(program, program)]
    return tuple((re.compile(pattern, re.ASCII), outcome) for pattern, outcome in table)


def task(run: Run, word: Field, origin: str) -> None:
    """A task by its name."""
    _note(run, "task", word, origin)


def setting(run: Run, word: Field, origin: str) -> None:
    """`name=value` for a build."""
    _note(run, "setting", word, origin)


def _note(run: Run, slot: str, word: Field, origin: str) -> None:
    text = word.text
    found = None
    if text is not None:
        patterns = _patterns(slot, run.command.program or "")
        found = next((outcome for pattern, outcome in patterns if pattern.fullmatch(text)), None)
    if found in ("network", "package"):
        run.effect(found, "task", text, True, run.span(word), origin)
    elif found == "code":
        run.code(word, what=text, role="code", origin=origin)
        run.doubt(word.word.raw)
    elif found is None:
        run.doubt(word.word.raw)
