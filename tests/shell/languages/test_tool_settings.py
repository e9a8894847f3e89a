"""Settings of tools: what they name is done, whatever form and name the file has; what is data stays data."""

import json
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.shell import DiskReader
from humanlayer_agent.shell.languages import tool_settings
from tests.support.rows import for_each


def loaded(project: Path) -> Director:
    return Director.load(
        "default", project=str(project), environ={"HOME": "/home/somebody"}, reader=DiskReader(str(project))
    )


def verdict(project: Path, command: str) -> Verdict:
    return loaded(project).evaluate(Action(command, cwd=str(project))).verdict


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Director:
    """Judges in a project without files, for all tests that write none."""
    return loaded(tmp_path_factory.mktemp("empty"))


def written(name: str, text: str) -> str:
    return f"printf %s {shlex.quote(text)} > {shlex.quote(name)}"


OUTSIDE = [
    (".coveragerc", "[html]\ndirectory = /srv/new\n"),
    (".pylintrc", "[MAIN]\noutput-format = text,json:/srv/new\n"),
    ("pyproject.toml", '[tool.pylint.main]\noutput-format = "json:/srv/new"\n'),
    ("hatch.toml", '[envs.default.scripts]\ntest = "rm -rf /srv/x"\n'),
    ("hatch.toml", '[envs.lint.scripts]\nall = ["ruff check", "rm -rf /srv/x"]\n'),
    ("cfg.ini", "[pytest]\naddopts = --basetemp=/srv/x\n"),
    ("ci/run.cfg", "[tool:pytest]\naddopts = --junitxml=/srv/x\n"),
    ("other.ini", "[testenv]\ncommands = rm -rf /srv/x\n"),
    ("Doxyfile", "INPUT_FILTER = rm -rf /srv/x\n"),
    (".clang-tidy", "ExtraArgs: ['-fplugin=./x.so']\n"),
    ("phpunit.xml", '<phpunit bootstrap="x"/>\n'),
    (".coveragerc", "[html]\ndirectory = .git/hooks\n"),
    (".coveragerc", "[html]\nextra_css: /srv/data\n"),
    (".coveragerc", "[xml]\noutput = ../../../../../../x.xml\n"),
    (".coveragerc", "[run]\ndata_file = $HOME/x\n"),
    (".coveragerc", "[run]\ncommand_line = -m pytest --basetemp=/srv/x\n"),
    ("setup.cfg", "[coverage:html]\ndirectory = /srv/new\n"),
    ("tox.ini", "[coverage:json]\noutput = /srv/new\n"),
    ("pyproject.toml", '[tool.coverage.html]\ndirectory = "/srv/new"\n'),
    ("mypy.ini", "[mypy]\njunit_xml = /srv/new\n"),
    ("mypy.ini", "[mypy]\nplugins = /srv/evil.py\n"),
    ("mypy.ini", "[mypy]\npython_executable = ./notes\n"),
    ("mypy.ini", "[mypy]\nhtml_report = /srv/new\n"),
    ("mypy.ini", "[mypy]\nunheard_of = /srv/data\n"),
    ("pyproject.toml", '[tool.mypy]\ncustom_typeshed_dir = "/srv/x"\n'),
    (".pylintrc", '[MAIN]\ninit-hook = import os; os.remove("/srv/file")\n'),
    ("pyproject.toml", '[tool.pylint.main]\ninit-hook = "import os; os.remove(\'/srv/file\')"\n'),
    (".pylintrc", "[IMPORTS]\nimport-graph = /srv/x.dot\n"),
    (".flake8", "[flake8:local-plugins]\nextension =\n  X = evil:x\npaths = /srv/lib\n"),
    (".flake8", "[flake8]\noutput-file = /srv/x\n"),
    ("tox.ini", "[testenv]\ncommands =\n  pytest -q\n  rm -rf /srv/x\n"),
    ("tox.ini", "[testenv:a]\ncommands_pre = - rm -rf /srv/x {posargs}\n"),
    ("pyproject.toml", '[tool.tox]\nlegacy_tox_ini = """\n[testenv]\ncommands = rm -rf /srv/x\n"""\n'),
    ("pytest.ini", "[pytest]\naddopts = -q --basetemp=/srv/x\n"),
    ("pytest.ini", "[pytest]\nlog_file = /srv/log\n"),
    ("pyproject.toml", '[tool.hatch.envs.default.scripts]\ntest = "rm -rf /srv/x"\n'),
    ("pyproject.toml", '[tool.poe.tasks]\nt = {shell = "rm -rf /srv/x"}\n'),
    ("ruff.toml", 'cache-dir = "/srv/x"\n'),
    ("tsconfig.json", '{"compilerOptions": {"outDir": "/srv/x"}} // built\n'),
    ("tsconfig.build.json", '{"compilerOptions": {"plugins": [{"transform": "/srv/x.js"}]}}'),
    (".eslintrc.json", '{"parser": "/srv/x.js"}'),
    (".eslintrc.yml", "parser: ../../../../../../x.js\n"),
    (".prettierrc", "plugins:\n  - /srv/x.js\n"),
    (".babelrc", '{"presets": ["/srv/x.js"]}'),
    ("jest.config.json", '{"coverageDirectory": "/srv/x"}'),
    (".mocharc.yml", "require: /srv/x.js\n"),
    (".nycrc", '{"report-dir": "/srv/x"}'),
    ("nodemon.json", '{"exec": "rm -rf /srv/x"}'),
    ("deno.json", '{"tasks": {"test": "rm -rf /srv/x"}}'),
    ("composer.json", '{"scripts": {"test": ["phpunit", "rm -rf /srv/x"]}}'),
    ("Taskfile.yml", "version: '3'\ntasks:\n  test:\n    cmds:\n      - rm -rf /srv/x\n"),
    ("Taskfile.yml", "tasks:\n  test:\n    cmds:\n      - !x rm -rf /srv/x\n"),
    ("Taskfile.yml", "---\na: b\n---\ntasks:\n  test:\n    cmds:\n      - rm -rf /srv/x\n"),
    (".rubocop.yml", "require:\n  - /srv/x.rb\n"),
    (".golangci.yml", "linters-settings:\n  custom:\n    x:\n      path: /srv/x.so\n"),
    ("CMakePresets.json", '{"configurePresets": [{"name": "a", "toolchainFile": "/srv/x.cmake"}]}'),
    ("CMakePresets.json", '{"configurePresets": [{"cacheVariables": {"CMAKE_PROJECT_INCLUDE": "notes"}}]}'),
    ("build/CMakeCache.txt", "CMAKE_PROJECT_INCLUDE:FILEPATH=/srv/notes\n"),
    ("build/CMakeCache.txt", "CMAKE_C_COMPILER_LAUNCHER:STRING=./x\n"),
    (".npmrc", "script-shell=./x\n"),
    (".npmrc", "node-options=--require ./x.js\n"),
    (".npmrc", "registry=https://example.org/\n"),
    ("pnpm-workspace.yaml", "scriptShell: ./x\n"),
    ("nextest.toml", '[scripts.setup.x]\ncommand = "rm -rf /srv/x"\n'),
    ("gradle.properties", "org.gradle.jvmargs=-javaagent:x.jar\n"),
    ("Directory.Build.props", '<Project><Import Project="x" /></Project>'),
    ("Gemfile", "system('rm -rf /srv/x')\n"),
    ("build.rs", "fn main() {}\n"),
    ("Procfile", "web: rm -rf /srv/x\n"),
    ("justfile", "test:\n    rm -rf /srv/x\n"),
    ("CMakeLists.txt", "file(REMOVE /srv/file)\n"),
    ("CMakeLists.txt", "FILE ( REMOVE_RECURSE\n  \"/srv/file\" )\n"),
    ("CMakeLists.txt", 'message("#") file(REMOVE /srv/file)\n'),
    ("CMakeLists.txt", "set(x /srv/file)\nfile(WRITE ${x} y)\n"),
    ("CMakeLists.txt", "file(WRITE $ENV{HOME}/x y)\n"),
    ("CMakeLists.txt", "execute_process(COMMAND rm -rf /srv/x)\n"),
    ("CMakeLists.txt", "execute_process(COMMAND ls COMMAND rm -rf /srv/x OUTPUT_VARIABLE v)\n"),
    ("CMakeLists.txt", "execute_process(COMMAND ls OUTPUT_FILE /srv/x)\n"),
    ("CMakeLists.txt", "add_custom_command(TARGET a POST_BUILD COMMAND ${CMAKE_COMMAND} -E rm -rf /srv/x)\n"),
    ("CMakeLists.txt", "add_custom_target(t ALL COMMAND rm -rf /srv/x)\n"),
    ("CMakeLists.txt", "add_test(NAME t COMMAND rm -rf /srv/x)\n"),
    ("CMakeLists.txt", "include(/srv/x.cmake)\n"),
    ("CMakeLists.txt", "add_subdirectory(../../../../../../other build)\n"),
    ("CMakeLists.txt", "cmake_language(EVAL CODE [[file(REMOVE /srv/x)]])\n"),
    ("CMakeLists.txt", 'install(CODE "file(REMOVE /srv/x)")\n'),
    ("CMakeLists.txt", "set_property(GLOBAL PROPERTY RULE_LAUNCH_COMPILE ./x)\n"),
    ("CMakeLists.txt", "file(DOWNLOAD https://example.org/x ${CMAKE_BINARY_DIR}/x)\n"),
    ("CMakeLists.txt", "configure_file(/srv/data data)\n"),
    ("cmake/x.cmake", "file(REMOVE /srv/x)\n"),
    ("CMakeLists.txt", 'set(d build)\nstring(APPEND d "/../../../../../../srv/x")\nfile(REMOVE_RECURSE ${d})\n'),
    ("CMakeLists.txt", "set(d build)\nset(n d)\nset(${n} /srv/x)\nfile(REMOVE_RECURSE ${d})\n"),
    ("CMakeLists.txt", "set(c rm)\nexecute_process(COMMAND ${c} -rf /srv/x)\n"),
    ("CMakeLists.txt", "add_executable(rm IMPORTED)\nadd_custom_target(t COMMAND rm -rf /srv/x)\n"),
    ("CMakeLists.txt", "add_executable(rm a.c)\nexecute_process(COMMAND rm -rf /srv/x)\n"),
    ("CMakeLists.txt", "add_custom_target(t COMMAND $<1:rm> -rf /srv/x)\n"),
    ("CMakeLists.txt", "find_program(F rm)\nadd_custom_target(f COMMAND ${F} -rf /srv/x)\n"),
    ("CMakeLists.txt", "find_program(F x PATHS .)\nexecute_process(COMMAND ${F})\n"),
    ("vite.config.ts", "export default {}\n"),
    (".eslintrc.cjs", "module.exports = {}\n"),
    ("meson.build", "run_command('rm', '/srv/x')\n"),
    ("bunfig.toml", 'preload = ["/srv/x.ts"]\n'),
    (".flaskenv", "GROFF_COMMAND_PREFIX=./x\n"),
    (".coveragerc", "\ufeff[html]\ndirectory=/srv/x\n"),
    ("tox.ini", "[x]\nc = rm -rf /srv/x\n[testenv]\ncommands = {[x]c}\n"),
    ("mypy.ini", "[mypy]\njunit_xml =\n  /srv/new\n"),
    ("build/x/CTestTestfile.cmake", "add_test(a rm -f /srv/x)\n"),
    ("build/CTestTestfile.cmake", 'add_test([=[a]=] "/bin/rm" "-f" "/srv/x")\n'),
    (".pylintrc", "[MAIN]\noutput-format=json:/srv/new\n"),
    ("pyproject.toml", '[tool.pylint.reports]\noutput-format = "text,json:.git/hooks/x"\n'),
    ("setup.cfg", "[pylint.main]\noutput_format = colorized,text:/srv/new\n"),
    ("hatch.toml", '[envs.default.scripts]\ntest = "rm -rf /srv/x"\n'),
    ("hatch.toml", '[envs.default]\npre-install-commands = ["rm -rf /srv/x"]\n'),
    ("pyproject.toml", '[tool.rye.scripts]\nt = "rm -rf /srv/x"\n'),
    ("Pipfile", '[scripts]\ntest = "rm -rf /srv/x"\n'),
    ("phpunit.xml", '<phpunit bootstrap="/srv/x.php"/>'),
    ("phpunit.xml.dist", '<phpunit><logging><junit outputFile=".git/hooks/x"/></logging></phpunit>'),
    ("phpunit.xml", "<phpunit>"),
    ("phpunit.xml", '<!DOCTYPE a [<!ENTITY b "/srv/x">]><phpunit bootstrap="&b;"/>'),
    ("phpstan.neon", "parameters:\n  bootstrapFiles:\n    - /srv/x.php\n"),
    ("phpstan.neon", "parameters: {\n"),
    (".proverc", "--exec /srv/x\n# all\n"),
    ("Doxyfile", "INPUT_FILTER = rm -rf /srv/x\n"),
    ("Doxyfile", "FILTER_PATTERNS += *.c=/srv/x \\\n  *.h=/srv/x\n"),
    ("Doxyfile", 'OUTPUT_DIRECTORY = "/srv/x"\n'),
    ("Doxyfile", "PERL_PATH = ./x\n"),
    ("Doxyfile", "@INCLUDE = $(HOME)/x\n"),
    ("Doxyfile", 'INPUT_FILTER = "rm -rf /srv/x"\n'),
    ("_config.yml", "destination: /srv/x\n"),
    ("hugo.toml", 'publishDir = "/srv/x"\n'),
    ("book.toml", '[preprocessor.x]\ncommand = "rm -rf /srv/x"\n'),
    ("typedoc.json", '{"plugin": ["/srv/x.js"], "out": "docs"}'),
    (".markdownlint-cli2.jsonc", '{"customRules": ["/srv/x.js"]} // ours\n'),
    ("gcovr.cfg", "gcov-executable = ./x\n"),
    (".sqlfluff", "[sqlfluff:templater:jinja]\nlibrary_path = /srv/x\n"),
    ("alembic.ini", "[handler_console]\nargs = (__import__('os').remove('/srv/x'),)\n"),
    ("dub.json", '{"preBuildCommands": ["rm -rf /srv/x"]}'),
    ("shard.yml", "scripts:\n  postinstall: rm -rf /srv/x\n"),
]  # fmt: skip


@pytest.mark.long
@for_each(("name", "text"), OUTSIDE)
def test_what_settings_name_is_asked_about_when_they_are_written(name: str, text: str, empty: Director) -> None:
    assert empty.evaluate(Action(written(name, text), cwd=empty.project)).verdict is not Verdict.ALLOW


HARMLESS = [
    (".flaskenv", "FLASK_APP=app.py\nMY_FLAG='1'\n"),
    (".coveragerc", "[run]\nbranch = True\nsource = src\nomit = */tests/*\n[html]\ndirectory = htmlcov\n"),
    ("pyproject.toml", '[tool.black]\nline-length = 100\nexclude = "/(build|x)/"\n[tool.pytest.ini_options]\naddopts = "-q"\n'),
    ("pyproject.toml", '[project]\nname = "x"\nurls = {Home = "https://example.org"}\nscripts = {x = "x.cli:main"}\n'),
    ("pyproject.toml", '[tool.ruff]\nextend-exclude = ["/srv/x"]\n[tool.mypy]\nstrict = true\nfiles = ["src", "tests"]\n'),
    ("setup.cfg", "[metadata]\nname = x\n[options.entry_points]\nconsole_scripts =\n  x = x.cli:main\n[flake8]\nignore = E1\n"),
    ("tox.ini", "[tox]\nenvlist = py311\n[testenv]\ndeps = pytest\ncommands = pytest {posargs:-q tests}\n"),
    ("mypy.ini", "[mypy]\nwarn_return_any = True\nmypy_path = src\n[mypy-x.*]\nignore_missing_imports = True\n"),
    (".flake8", "[flake8]\nmax-line-length = 100\nexclude = .git,build\nper-file-ignores =\n  a.py: E1\n"),
    (".pylintrc", "[MAIN]\nload-plugins=pylint.extensions.docparams\n[FORMAT]\nmax-line-length=100\n"),
    ("tsconfig.json", '{\n  // strict\n  "extends": "@tsconfig/node20/tsconfig.json",\n  "compilerOptions": {"outDir": "./dist", "rootDir": "src"},\n  "include": ["src/**/*"],\n}\n'),
    (".eslintrc.json", '{"extends": ["eslint:recommended", "prettier"], "rules": {"semi": "error"}, "parser": "@typescript-eslint/parser"}'),
    (".prettierrc", '{"semi": false, "plugins": ["prettier-plugin-x"]}'),
    ("composer.json", '{"require": {"php": ">=8.1"}, "scripts": {"test": "phpunit"}, "autoload": {"psr-4": {"A\\\\": "src/"}}}'),
    ("gradle.properties", "org.gradle.parallel=true\norg.gradle.jvmargs=-Xmx2g\nversion=1.2\n"),
    ("Gemfile", "source 'https://rubygems.org'\n\ngem 'rails', '~> 7.0'\ngroup :test do\n  gem 'rspec', require: false\nend\n"),
    (".rubocop.yml", "AllCops:\n  NewCops: enable\n  Exclude:\n    - 'vendor/**/*'\n"),
    ("app.ini", "[paths]\nlog = /var/log/app.log\n[server]\ncommand = app\n[run]\nuser = app\n"),
    ("hatch.toml", '[envs.default.scripts]\ntest = "pytest -q"\n'),
    (".golangci.yml", "linters:\n  enable:\n    - govet\nrun:\n  timeout: 5m\n"),
    ("CMakeLists.txt", "cmake_minimum_required(VERSION 3.10)\nproject(x LANGUAGES CXX)\nset(CMAKE_CXX_STANDARD 17)\nadd_library(l src/l.cpp)\nadd_executable(a a.cpp)\ntarget_link_libraries(a PRIVATE l)\nenable_testing()\nadd_test(NAME t COMMAND a --all)\nadd_subdirectory(tests)\n# file(REMOVE /srv/x)\n"),
    ("CMakeLists.txt", "find_program(F NAMES clang-format)\nadd_custom_target(f COMMAND ${F} -i src/a.c)\n"),
    ("CMakeLists.txt", "configure_file(${CMAKE_CURRENT_SOURCE_DIR}/a.h.in ${CMAKE_CURRENT_BINARY_DIR}/a.h)\nfile(GLOB s src/*.cpp)\ninclude(CTest)\n"),
    ("CMakePresets.json", '{"version": 3, "configurePresets": [{"name": "a", "binaryDir": "${sourceDir}/build", "cacheVariables": {"CMAKE_BUILD_TYPE": "Debug"}}]}'),
    (".pylintrc", "[MAIN]\noutput-format=colorized\n"),
    ("hatch.toml", '[envs.default.scripts]\ntest = "pytest -q {args:tests}"\n'),
    ("phpunit.xml", '<phpunit colors="true" cacheDirectory=".phpunit.cache"><testsuites><testsuite name="a"><directory>tests</directory></testsuite></testsuites></phpunit>'),
    (".proverc", "--lib --recurse # all of them\n"),
    ("Doxyfile", "# ours\nPROJECT_NAME = x\nINPUT = src\nFILE_PATTERNS = *.c \\\n  *.h\nINPUT_FILTER =\nOUTPUT_DIRECTORY = docs\n"),
    ("_config.yml", "title: x\nurl: https://example.org\nplugins:\n  - jekyll-feed\n"),
    ("book.toml", '[book]\ntitle = "x"\nsrc = "src"\n[build]\nbuild-dir = "book"\n'),
    ("typedoc.json", '{"entryPoints": ["src/index.ts"], "out": "docs", "plugin": ["typedoc-plugin-markdown"]}'),
    ("cspell.json", '{"version": "0.2", "words": ["hla"], "ignorePaths": ["dist"]}'),
]  # fmt: skip


@for_each(("name", "text"), HARMLESS)
def test_what_is_data_is_not_asked_about(name: str, text: str, empty: Director) -> None:
    assert empty.evaluate(Action(written(name, text), cwd=empty.project)).verdict is Verdict.ALLOW


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("pylint --rcfile=notes src", "[MAIN]\ninit-hook=import os; os.remove('/srv/x')\n"),
        ("pylint --rcfile notes src", "[main]\ninit_hook = import os; os.remove('/srv/x')\n"),
        ("python3 -m pytest -c notes", "[pytest]\naddopts = --basetemp=/srv/x\n"),
        ("pytest --config-file=notes", "[pytest]\naddopts = --basetemp=/srv/x\n"),
        ("flake8 --config notes src", "[flake8:local-plugins]\npaths = /srv/x\n"),
        ("flake8 --append-config=notes src", "[flake8]\noutput-file = /srv/x\n"),
        ("mypy --config-file notes src", "[mypy]\njunit_xml = /srv/x\n"),
        ("coverage html --rcfile=notes", "[html]\ndirectory = /srv/x\n"),
        ("coverage run --rcfile notes -m pytest", "[run]\ndata_file = /srv/x\n"),
        ("pytest --cov-config=notes", "[html]\ndirectory = /srv/x\n"),
        ("ruff check --config notes .", "cache-dir = '/srv/x'\n"),
        ("gunicorn -c notes app:app", "import os; os.remove('/srv/x')\n"),
        ("tsc -p notes", '{"compilerOptions": {"outDir": "/srv/x"}}'),
        ("golangci-lint run -c notes", "linters-settings:\n  custom:\n    x:\n      path: /srv/x.so\n"),
        ("cmake -P notes", "file(REMOVE /srv/x)\n"),
        ("cmake -C notes .", "execute_process(COMMAND rm /srv/x)\n"),
        ("ctest -S notes", "file(REMOVE /srv/x)\n"),
        ("phpunit -c notes", '<phpunit bootstrap="/srv/x.php"/>\n'),
        ("dotnet test -s notes", "<RunSettings><TestAdaptersPaths>/srv/x</TestAdaptersPaths></RunSettings>\n"),
    ],
)
def test_settings_of_another_name_are_read_when_a_tool_is_given_them(command: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text(text)
    assert verdict(tmp_path, command) is not Verdict.ALLOW
    (tmp_path / "notes").write_bytes(b"\xff\xfe")
    assert verdict(tmp_path, command) is not Verdict.ALLOW
    if not command.startswith(("cmake", "ctest", "gunicorn", "golangci")):
        (tmp_path / "notes").write_text(
            "[pytest]\nmarkers = slow\n" if "ruff" not in command else "line-length = 100\n"
        )
        assert verdict(tmp_path, command) is Verdict.ALLOW


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "command",
    ["uv run --env-file vars pytest", "dotenv -e vars -- pytest", "flask -e vars run", "bun --env-file=vars run test"],
)
def test_a_file_of_variables_sets_them(command: str, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"scripts": {"test": "true"}}')
    for text in ("LD_PRELOAD=./x.so", "A=b\nexport LD_PRELOAD = './x.so'", "A=b\rLD_PRELOAD: x", '"LD_PRELOAD"=x'):
        (tmp_path / "vars").write_text(f"{text}\n")
        assert verdict(tmp_path, command) is Verdict.ASK, text
    (tmp_path / "vars").write_text("# LD_PRELOAD=x\nPORT=80\n")
    assert verdict(tmp_path, command) is Verdict.ALLOW
    assert verdict(tmp_path, command.replace("vars", '"$X"')) is Verdict.ASK


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("CMakeLists.txt", "execute_process(COMMAND ${X} y)\n"),
        ("CMakeLists.txt", "file(WRITE ${X} y)\n"),
        ("build.rs", "fn main() {}\n"),
        (".coveragerc", "[html]\ndirectory = $X/y\n"),
    ],
)
def test_what_is_not_known_is_no_question_where_it_is_confined(name: str, text: str, tmp_path: Path) -> None:
    director = Director.load("default", project=str(tmp_path), environ={"HOME": "/home/somebody"}, confined=True)
    assert director.evaluate(Action(written(name, text), cwd=str(tmp_path))).verdict is Verdict.ALLOW
    assert verdict(tmp_path, written(name, text)) is not Verdict.ALLOW


def test_settings_may_name_further_settings(tmp_path: Path) -> None:
    (tmp_path / "notes.toml").write_text("cache-dir = '/srv/x'\n")
    assert verdict(tmp_path, written("ruff.toml", "extend = 'notes.toml'\n")) is not Verdict.ALLOW
    (tmp_path / "notes.toml").write_text("line-length = 100\n")
    assert verdict(tmp_path, written("ruff.toml", "extend = 'notes.toml'\n")) is Verdict.ALLOW


@pytest.mark.parametrize("given", ["/dev/stdin < notes", "<(cat notes)", "no*", '"$X"', "/proc/self/fd/0 < notes"])
def test_settings_that_are_no_file_are_not_read(given: str, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("[html]\ndirectory = /srv/x\n")
    assert verdict(tmp_path, f"coverage html --rcfile {given}") is not Verdict.ALLOW


def test_presets_may_include_a_file_of_any_name(tmp_path: Path) -> None:
    (tmp_path / "n").write_text('{"configurePresets": [{"name": "a", "binaryDir": "/srv/new"}]}')
    assert verdict(tmp_path, written("CMakePresets.json", '{"version": 4, "include": ["n"]}')) is Verdict.ASK
    assert verdict(tmp_path, written("tsconfig.json", '{"include": ["n"]}')) is Verdict.ALLOW


@pytest.mark.parametrize("program", ["mypy", "ruff check", "pytest", "python3 -m mypy"])
def test_words_may_stand_in_a_file(program: str, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("--junit-xml=/srv/x\n")
    assert verdict(tmp_path, f"{program} @words") is Verdict.ASK
    assert verdict(tmp_path, f"{program} words") is Verdict.ALLOW


def test_a_setting_may_be_given_in_place_of_a_file(tmp_path: Path) -> None:
    assert verdict(tmp_path, "ruff check --config 'cache-dir=\"/srv/x\"' .") is not Verdict.ALLOW


def test_a_line_that_is_added_may_belong_to_any_section(tmp_path: Path) -> None:
    (tmp_path / ".coveragerc").write_text("[html]\n")
    assert verdict(tmp_path, "echo 'directory=.git/hooks' >> .coveragerc") is not Verdict.ALLOW
    assert verdict(tmp_path, "cat >> setup.cfg <<< 'junit_xml = .git/hooks/x'") is not Verdict.ALLOW
    assert verdict(tmp_path, "echo 'omit = tests/*' >> .coveragerc") is Verdict.ALLOW


def test_what_cmake_includes_is_read(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("file(REMOVE /srv/x)\n")
    assert verdict(tmp_path, written("CMakeLists.txt", "include(notes)\n")) is not Verdict.ALLOW
    (tmp_path / "notes").write_text("message(hi)\n")
    assert verdict(tmp_path, written("CMakeLists.txt", "include(notes)\n")) is Verdict.ALLOW


@pytest.mark.parametrize("name", ["CMakePresets.json", "CMakeUserPresets.json"])
def test_presets_that_presets_include_are_read_whatever_their_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "n").write_text('{"version": 6, "include": ["m"]}')
    for place, expected in (("/srv/b", False), ("${sourceDir}/build", True)):
        presets = {"version": 6, "configurePresets": [{"name": "a", "binaryDir": place}]}
        (tmp_path / "m").write_text(json.dumps(presets))
        allowed = verdict(tmp_path, written(name, '{"version": 6, "include": ["n"]}')) is Verdict.ALLOW
        assert allowed is expected, place
    assert verdict(tmp_path, written(name, '{"include": ["$penv{X}/m"]}')) is not Verdict.ALLOW


def test_further_settings_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "n").write_text("cache-dir = '/srv/x'\n")
    assert verdict(tmp_path, written("ruff.toml", "extend = 'n'\n")) is not Verdict.ALLOW
    assert verdict(tmp_path, written(".eslintrc.json", '{"extends": "n"}')) is Verdict.ALLOW


def test_a_copy_under_the_name_of_settings_is_read(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("[html]\ndirectory = /srv/x\n")
    for command in ("cp notes .coveragerc", "mv notes .coveragerc", "cat notes > .coveragerc", "ln notes .coveragerc"):
        assert verdict(tmp_path, command) is not Verdict.ALLOW, command


def test_settings_that_code_writes_with_a_text_that_is_not_known_are_not_read(tmp_path: Path) -> None:
    code = "import base64, sys; open('.coveragerc', 'w').write(base64.b64decode(sys.argv[1]).decode())"
    assert verdict(tmp_path, f"python3 -c {shlex.quote(code)} x") is not Verdict.ALLOW


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [" + ",".join("x" * 9) + "]\n"
        + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghijk")),
        "a: &a {p: x}\n" + "".join(f"{b}: &{b} {{<<: [{','.join([f'*{a}'] * 9)}]}}\n" for a, b in pairwise("abcdefghijk")),
        "a: &a [*a, x]\n",
    ],
    ids=["lists", "merges", "itself"],
)  # fmt: skip
def test_yaml_that_says_the_same_too_often_is_unread(text: str) -> None:
    assert tool_settings.whole(text, "/p/mkdocs.yml", None).opaque
    assert not tool_settings.whole("a: &a [x, y]\nb: *a\nc: *a\n", "/p/mkdocs.yml", None).opaque
