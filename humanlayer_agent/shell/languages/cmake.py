"""CMakeLists.txt, *.cmake and CTestTestfile.cmake: what CMake does itself, and the commands of targets and tests.

The name of a command is always written out; what it is given may hold variables, of which those for the folders of the
project and those set once to a plain text are known (cmake-language(7), cmake-commands(7)).
"""

import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from humanlayer_agent.shell.languages.behaviour import NOT_THERE, Act, Behaviour, Found, Text

Files = Callable[[str], Found]
Words = Sequence[str]

MAX_COMMANDS = 5_000
MAX_DEPTH = 3
_COMMAND = re.compile(r"[ \t]*([A-Za-z_]\w*)[ \t]*\(")
_TOKEN = re.compile(
    r"\[(?P<n>=*)\[(?P<bracket>(?:.|\n)*?)\](?P=n)\]|\"(?P<quoted>(?:[^\"\\]|\\(?:.|\n))*)\"|(?P<comment>\#(?:\[\[(?:.|\n)*?\]\]|[^\n]*))"
    r"|(?P<open>\()|(?P<close>\))|(?P<plain>(?:[^\s()#\"\\]|\\.)+(?:\"[^\"]*\"(?:[^\s()#\"\\]|\\.)*)*)"
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_FOLDERS = {
    **dict.fromkeys(
        str.split(
            "CMAKE_SOURCE_DIR CMAKE_CURRENT_SOURCE_DIR PROJECT_SOURCE_DIR CMAKE_CURRENT_LIST_DIR CMAKE_HOME_DIRECTORY"
        ),
        ".",
    ),
    **dict.fromkeys(("CMAKE_BINARY_DIR", "CMAKE_CURRENT_BINARY_DIR", "PROJECT_BINARY_DIR"), "build"),
    "CMAKE_COMMAND": "cmake",
    "CMAKE_CTEST_COMMAND": "ctest",
    **dict.fromkeys(("Python_EXECUTABLE", "Python3_EXECUTABLE", "PYTHON_EXECUTABLE"), "python3"),
    "PROJECT_NAME": "project",
    "CMAKE_PROJECT_NAME": "project",
}
"""Variables whose values are known well enough to say where a path leads."""
_READS = frozenset(
    str.split(
        """
        READ STRINGS MD5 SHA1 SHA224 SHA256 SHA384 SHA512 SHA3_224 SHA3_256 SHA3_384 SHA3_512 TIMESTAMP SIZE
        READ_SYMLINK READ_ELF
        """
    )
)
_PLAIN = frozenset(
    str.split(
        """
        GLOB GLOB_RECURSE RELATIVE_PATH TO_CMAKE_PATH TO_NATIVE_PATH REAL_PATH LOCK GET_RUNTIME_DEPENDENCIES
        """
    )
)
_OF_CMAKE = {
    "copy": "cp -r", "copy_directory": "cp -r", "copy_if_different": "cp", "copy_directory_if_different": "cp -r",
    "make_directory": "mkdir -p", "remove": "rm -f", "remove_directory": "rm -rf", "rm": "rm", "rename": "mv",
    "touch": "touch", "touch_nocreate": "touch", "create_symlink": "ln -s", "create_hardlink": "ln", "cat": "cat",
    "env": "env", "compare_files": "cmp", "md5sum": "md5sum", "sha256sum": "sha256sum", "time": "time",
    "chdir": "env -C",
}  # fmt: skip
"""What `cmake -E NAME` does, as a command that is known."""
_SAYS = frozenset({"echo", "echo_append", "true", "false", "sleep", "capabilities", "environment"})
_AFTER = frozenset(
    str.split(
        """
        DEPENDS COMMENT WORKING_DIRECTORY VERBATIM BYPRODUCTS MAIN_DEPENDENCY IMPLICIT_DEPENDS DEPFILE JOB_POOL
        USES_TERMINAL COMMAND_EXPAND_LISTS APPEND SOURCES OUTPUT PRE_BUILD PRE_LINK POST_BUILD TARGET
        RESULT_VARIABLE RESULTS_VARIABLE OUTPUT_VARIABLE ERROR_VARIABLE OUTPUT_FILE ERROR_FILE INPUT_FILE
        OUTPUT_QUIET ERROR_QUIET TIMEOUT COMMAND_ECHO ENCODING OUTPUT_STRIP_TRAILING_WHITESPACE
        ERROR_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ECHO_OUTPUT_VARIABLE ECHO_ERROR_VARIABLE
        CONFIGURATIONS NAME JOB_SERVER_AWARE CODEGEN
        """
    )
)
"""Words that end a command among the arguments."""
_RUN_BY_SETTING = re.compile(
    r"(?:CMAKE_\w*_)?(?:RULE_LAUNCH_\w+|\w+_(?:COMPILER_LAUNCHER|LINKER_LAUNCHER|CLANG_TIDY|CPPCHECK|CPPLINT)"
    r"|\w+_INCLUDE_WHAT_YOU_USE"
    r"|CROSSCOMPILING_EMULATOR|TEST_LAUNCHER|VS_\w*COMMAND\w*)|CMAKE_\w*_?COMPILER|CMAKE_MAKE_PROGRAM"
    r"|CMAKE_(?:LINKER|AR|RANLIB|NM|STRIP)"
    r"|CMAKE_\w*RULE_\w*|CMAKE_\w*_(?:COMPILE_OBJECT|LINK_EXECUTABLE|CREATE_\w+|ARCHIVE_\w+)",
    re.ASCII,
)
"""Variables and properties whose value is a command."""
_INCLUDED_BY_SETTING = re.compile(
    r"CMAKE_PROJECT_\w*INCLUDE\w*|CMAKE_TOOLCHAIN_FILE|CMAKE_MODULE_PATH|CMAKE_PREFIX_PATH|TEST_INCLUDE_FILES?|CMAKE_USER_MAKE_RULES_OVERRIDE\w*",
    re.ASCII,
)
_ASSIGNS = frozenset(
    {"set", "list", "string", "foreach", "macro", "function", "get_filename_component", "cmake_parse_arguments"}
)
_ELSEWHERE = frozenset({"IMPORTED", "ALIAS"})
"""Targets that are no program of this project."""
_HINTS = frozenset(str.split("HINTS PATHS ENV VALIDATOR NAMES_PER_DIR PATH_SUFFIXES"))
_STEPS = re.compile(r"\w+_COMMAND")


def whole(text: str, path: str | None, files: Files | None) -> Behaviour:
    """All that a file of CMake may do, when it configures, builds or tests."""
    reader = _Reader(path or "/CMakeLists.txt", files)
    reader.read(text, 0)
    return reader.out


class _Reader:
    """Reads one file, and those that it includes."""

    def __init__(self, path: str, files: Files | None) -> None:
        self.path, self.here, self.files, self.out = path, posixpath.dirname(path), files, Behaviour()
        self.values: dict[str, str | None] = {}
        self.targets: set[str] = set()
        self.count = 0

    def read(self, text: str, depth: int) -> None:
        """Note what the commands in `text` do."""
        commands = list(_commands(text))
        named = Counter(word for _, words in commands for word in words)
        plain = not any(name in _ASSIGNS and words and "$" in words[0] for name, words in commands)
        for name, words in commands:
            if name == "add_executable" and words and not _ELSEWHERE.intersection(words):
                self.targets.add(words[0])
            if name == "set" and words:
                once = len(words) == 2 and named[words[0]] == 1 and words[0] not in self.values and plain
                self.values[words[0]] = words[1] if once and "$" not in words[1] else None
            elif name == "find_program" and words:
                given = [word for word in words[1:] if word not in ("NAMES", "REQUIRED")]
                found = plain and given and not _HINTS.intersection(given) and "/" not in given[0]
                self.values[words[0]] = given[0] if found and "$" not in given[0] else None
        for name, words in commands:
            self.count += 1
            if self.count > MAX_COMMANDS:
                self.out.opaque = True
                self.out.doubt("too many commands of CMake")
                return
            self._command(name, words, depth)

    def _command(self, name: str, words: Words, depth: int) -> None:
        if name == "file" and words:
            self._file(words)
        elif name in ("execute_process", "add_custom_command", "add_custom_target", "add_test"):
            self._runs(name, words)
        elif name == "exec_program" and words:
            self._program(
                [words[0], *(w for w in words[1:] if w not in ("ARGS", "OUTPUT_VARIABLE", "RETURN_VALUE"))], name
            )
        elif name in ("configure_file", "write_file", "make_directory") and words:
            if name == "configure_file":
                self._act("read", words[0], name)
            self._act("write", words[min(1, len(words) - 1)] if name == "configure_file" else words[0], name)
        elif name in ("include", "load_command") and words:
            self._include(words[0], depth)
        elif name in ("add_subdirectory", "subdirs"):
            for word in words[: 1 if name == "add_subdirectory" else None]:
                self._code(word, name)
        elif name in (
            "set",
            "set_property",
            "set_target_properties",
            "set_directory_properties",
            "set_tests_properties",
            "list",
        ):
            self._setting(words, name)
        elif name == "install":
            self._install(words, depth)
        elif name == "cmake_language" and words[:1] == ["EVAL"]:
            self._text(words[2:], depth)
        elif name == "cmake_language" and words[:1] == ["CALL"] and (len(words) < 2 or "$" in words[1]):
            self.out.doubt(f"cmake_language CALL {' '.join(words[1:2])}")
        elif name == "cmake_language" and words[:1] == ["CALL"]:
            self._command(words[1].lower(), words[2:], depth)
        elif name in (
            "externalproject_add",
            "externalproject_add_step",
            "fetchcontent_declare",
            "cpmaddpackage",
            "ctest_start",
            "ctest_submit",
        ):
            self._external(words, name)

    def _file(self, words: Words) -> None:
        kind, rest = words[0].upper(), list(words[1:])
        if kind in _READS:
            self._act("read", rest[0] if rest else "", "file")
        elif kind in ("WRITE", "APPEND", "TOUCH", "TOUCH_NOCREATE", "MAKE_DIRECTORY"):
            for word in rest if kind not in ("WRITE", "APPEND") else rest[:1]:
                self._act("write", word, "file")
        elif kind in ("REMOVE", "REMOVE_RECURSE"):
            for word in rest:
                self._act("delete", word, "file", recursive=kind == "REMOVE_RECURSE")
        elif kind in ("RENAME", "COPY_FILE", "CREATE_LINK"):
            self._act("move" if kind == "RENAME" else "read", rest[0] if rest else "", "file")
            self._act("write", rest[1] if len(rest) > 1 else "", "file")
        elif kind in ("COPY", "INSTALL"):
            at = rest.index("DESTINATION") if "DESTINATION" in rest else len(rest)
            for word in rest[:at]:
                if word != "FILES":
                    self._act("read", word, "file")
            self._act("write", rest[at + 1] if at + 1 < len(rest) else "", "file")
        else:
            self._file_elsewhere(words[0], rest)

    def _file_elsewhere(self, written: str, rest: Words) -> None:
        """`file()` with keys, or beyond this machine."""
        kind = written.upper()
        if kind in ("DOWNLOAD", "UPLOAD") and rest:
            places = rest if kind == "DOWNLOAD" else rest[::-1]
            self.out.acts.append(Act("network", (self._where(places[0], path=False),), origin="file"))
            self._act("write" if kind == "DOWNLOAD" else "read", places[1] if len(places) > 1 else "", "file")
        elif kind in ("GENERATE", "CONFIGURE", "ARCHIVE_CREATE", "ARCHIVE_EXTRACT"):
            for key, act in (("OUTPUT", "write"), ("DESTINATION", "write"), ("INPUT", "read"), ("PATHS", "read")):
                if key in rest and rest.index(key) + 1 < len(rest):
                    self._act(act, rest[rest.index(key) + 1], "file")
        elif kind in ("CHMOD", "CHMOD_RECURSE"):
            self._act("metadata", rest[0] if rest else "", "file")
        elif kind not in _PLAIN:
            self.out.doubt(f"file {written}")

    def _runs(self, name: str, words: Words) -> None:
        """The commands among the arguments, and the files that they read and write."""
        if name == "add_test" and words[:1] != ["NAME"]:
            self._program(words[1:], name)
            return
        cwd = next((b for a, b in pairwise(words) if a == "WORKING_DIRECTORY"), None)
        for key, kind in (("OUTPUT_FILE", "write"), ("ERROR_FILE", "write"), ("INPUT_FILE", "read")):
            if key in words[:-1]:
                self._act(kind, words[list(words).index(key) + 1], name)
        command: list[str] | None = None
        for word in (*words, "COMMAND"):
            if word in ("COMMAND", "ARGS", "ALL") or word in _AFTER:
                if word == "ARGS":
                    continue
                if command:
                    self._program(command, name, cwd)
                command = [] if word == "COMMAND" else None
            elif command is not None:
                command.append(word)

    def _program(self, words: Words, origin: str, cwd: str | None = None) -> None:
        """A program is run: a target that was built, one of CMake's own tools, or any other."""
        built = origin in ("add_custom_command", "add_custom_target", "add_test")
        if not words or (built and (words[0] in self.targets or words[0][14:-1] in self.targets)):
            return  # `$<TARGET_FILE:a>` is such a target, too
        texts = [self._where(word, path=False) for word in words]
        if not texts[0].choices:
            self.out.doubt(f"{origin} runs {words[0]}")
            return
        first, second = (text.choices[0] if text.choices else None for text in (*texts, Text())[:2])
        if first == "cmake" and second == "-E":
            tool = texts[2].choices[0] if len(texts) > 2 and texts[2].choices else ""
            if tool in _SAYS:
                return
            if tool not in _OF_CMAKE:
                self.out.doubt(f"cmake -E {tool}")
                return
            texts = [*(Text.of(word) for word in shlex.split(_OF_CMAKE[tool])), *texts[3:]]
        elif first == "cmake" and second == "--build":
            return
        where = self._where(cwd) if cwd is not None else Text.of(self.here)
        self.out.acts.append(Act("program", tuple(texts), origin=origin, cwd=where))

    def _include(self, word: str, depth: int) -> None:
        """A file, or a module by its name: that is looked for first, and may be one of the project."""
        self._code(word, "include")
        where = self._where(word)
        path = posixpath.normpath(where.choices[0]) if where.choices else None
        found = self.files(path) if self.files is not None and path is not None and path != self.path else NOT_THERE
        if found.project:
            return
        if found.texts is None or (found.texts and depth >= MAX_DEPTH):
            self.out.doubt(f"include {word}")
        for text in found.texts or () if depth < MAX_DEPTH else ():
            self.read(text, depth + 1)

    def _code(self, word: str, origin: str) -> None:
        """A folder or a file whose commands are run: those of the project are its own code."""
        where = self._where(word)
        path = posixpath.normpath(where.choices[0]) if where.choices else None
        if path is None or not (path + "/").startswith(self.here.rstrip("/") + "/"):
            self.out.acts.append(Act("execute", (where,), "import-path", origin=origin))

    def _setting(self, words: Words, origin: str) -> None:
        for name, value in pairwise(words):
            if _RUN_BY_SETTING.fullmatch(name) and value not in ("PROPERTY", "PARENT_SCOPE", "CACHE") and value:
                known = self._where(value.replace(";", " "), path=False)
                if known.choices:
                    line = known.choices[0]
                    text = line if " " in line else f"{line} --version"
                    self.out.acts.append(Act("shell", (Text.of(text),), origin=origin, cwd=Text.of(self.here)))
                else:
                    self.out.doubt(f"{name} {value}")
            elif _INCLUDED_BY_SETTING.fullmatch(name):
                for part in value.split(";"):
                    self._code(part, origin)

    def _install(self, words: Words, depth: int) -> None:
        for key, value in pairwise(words):
            if key == "CODE":
                self._text([value], depth)
            elif key == "SCRIPT":
                self._include(value, depth)

    def _text(self, words: Words, depth: int) -> None:
        """A text that is run as commands of CMake."""
        if depth >= MAX_DEPTH or any(_VARIABLE.search(word) for word in words):
            self.out.doubt("code of CMake that is not known")
            return
        self.read("\n".join(words), depth + 1)

    def _external(self, words: Words, origin: str) -> None:
        """Another project: where it comes from, and what is run to build it."""
        command: list[str] | None = None
        for n, word in enumerate((*words, "LOG_BUILD")):
            upper = word.isupper() and "_" in word
            if command is not None and (upper or word == "COMMAND"):
                self._program(command, origin)
                command = [] if word == "COMMAND" else None
            elif command is not None:
                command.append(word)
            if _STEPS.fullmatch(word):
                command = []
            elif word in (
                "URL",
                "GIT_REPOSITORY",
                "SVN_REPOSITORY",
                "HG_REPOSITORY",
                "GITHUB_REPOSITORY",
            ) and n + 1 < len(words):
                self.out.acts.append(
                    Act("network", (self._where(words[n + 1], path=False),), origin=origin, sure=False)
                )

    def _act(self, kind: str, word: str, origin: str, *, recursive: bool = False) -> None:
        self.out.acts.append(Act(kind, (self._where(word),), origin=origin, recursive=recursive))

    def _where(self, word: str, *, path: bool = True) -> Text:
        """What a word is after its variables; nothing is known of it where one of them is not."""
        if "$<" in word or "$ENV{" in word or "$CACHE{" in word or "@" in word:
            return Text()
        unknown = False

        def value(found: re.Match[str]) -> str:
            nonlocal unknown
            known = _FOLDERS.get(found[1]) or self.values.get(found[1])
            unknown |= known is None
            return known or ""

        text = _VARIABLE.sub(value, word)
        if unknown or "$" in text:
            return Text()
        return Text.of(posixpath.join(self.here, text) if path else text)


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a file with their words, in order."""
    at = 0
    while True:
        found = _COMMAND.search(text, at)
        if found is None:
            return
        before = text[max(at, text.rfind("\n", 0, found.start(1)) + 1) : found.start(1)]
        if "#" in before:
            at = found.end()
            continue
        words, at = _arguments(text, found.end())
        yield found[1].lower(), words


def _arguments(text: str, at: int) -> tuple[list[str], int]:
    words: list[str] = []
    depth = 1
    for token in _TOKEN.finditer(text, at):
        if token["open"]:
            depth += 1
        elif token["close"]:
            depth -= 1
            if depth == 0:
                return words, token.end()
        elif token["bracket"] is not None:
            words.append(token["bracket"])
        elif token["quoted"] is not None:
            words.append(re.sub(r"\\\n|\\(.)", lambda found: found[1] or "", token["quoted"]))
        elif token["plain"]:
            words += [part for part in token["plain"].replace("\\;", "\0").split(";") if part]
    return words, len(text)
