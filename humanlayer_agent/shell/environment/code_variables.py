"""Environment variables that load or select code, tell where files are written, or change what commands mean.

Setting one for a command can make an innocent program run something else, read another configuration file, or
send data elsewhere. Sources: ld.so(8), bash(1), git(1) and git-config(1), python(1), perlrun(1), node(1), man(1),
less(1), make(1), gcc(1); documentation of cargo, go, pip, uv, npm, ripgrep, terraform, ansible and docker.
"""

import re
from collections.abc import Iterable

from humanlayer_agent.shell.environment import tool_environment

_EXACT = frozenset(
    str.split(
        """
        PATH IFS ENV BASH_ENV SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND PS0 PS1 PS2 CDPATH GLOBIGNORE HOME
        SHELL EXECIGNORE POSIXLY_CORRECT BASH_LOADABLES_PATH BASH_XTRACEFD HISTFILE ZDOTDIR FPATH KSHENV
        XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS XDG_RUNTIME_DIR PYTHONPATH
        PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONUSERBASE PYTHONBREAKPOINT PYTHONWARNINGS
        PYTHONEXECUTABLE PYTHONPLATLIBDIR PYTHONCASEOK PYTHONPYCACHEPREFIX PYTEST_ADDOPTS PYTEST_PLUGINS
        COVERAGE_PROCESS_START COVERAGE_RCFILE PYLINTRC MYPYPATH IPYTHONDIR JUPYTER_CONFIG_DIR
        JUPYTER_PATH PERL5LIB PERLLIB PERL5OPT PERL5DB PERL5SHELL PERL6LIB RUBYLIB RUBYOPT GEM_HOME
        GEM_PATH BUNDLE_GEMFILE NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE LUA_PATH LUA_CPATH
        LUA_INIT PHPRC PHP_INI_SCAN_DIR JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_HOME
        CLASSPATH MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS ANT_OPTS SBT_OPTS R_PROFILE R_PROFILE_USER R_ENVIRON
        R_ENVIRON_USER R_LIBS ERL_FLAGS ELIXIR_ERL_OPTIONS JULIA_LOAD_PATH JULIA_DEPOT_PATH
        GUILE_LOAD_PATH TCLLIBPATH TCL_LIBRARY AWKPATH AWKLIBPATH GCONV_PATH NLSPATH LOCPATH EDITOR
        VISUAL PAGER MANPAGER MANOPT MANPATH LESS LESSOPEN LESSCLOSE LESSEDIT LESSKEY LESSKEYIN MORE GRAPHVIZ_DOT
        BROWSER VIMINIT EXINIT GVIMINIT MYVIMRC VIM VIMRUNTIME EMACSLOADPATH FZF_DEFAULT_COMMAND
        FZF_DEFAULT_OPTS RIPGREP_CONFIG_PATH ACKRC ACK_OPTIONS BAT_CONFIG_PATH BAT_OPTS FD_CONFIG_PATH
        MAKE MAKEFLAGS MAKEFILES GNUMAKEFLAGS CC CXX CPP FC LD AR AS NM RANLIB CFLAGS CXXFLAGS CPPFLAGS
        LDFLAGS LDSHARED COMPILER_PATH GCC_EXEC_PREFIX LIBRARY_PATH CPATH C_INCLUDE_PATH
        CPLUS_INCLUDE_PATH CCACHE_PREFIX CCACHE_COMPILER PKG_CONFIG PKG_CONFIG_PATH PKG_CONFIG_LIBDIR
        ACLOCAL_PATH M4PATH CMAKE_TOOLCHAIN_FILE CMAKE_PREFIX_PATH CMAKE_PROGRAM_PATH RUSTC RUSTDOC
        RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTFLAGS RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTUP_DIST_SERVER
        GOFLAGS GOPATH GOROOT GOENV GOPROXY GOTOOLCHAIN GONOSUMDB GONOSUMCHECK GOINSECURE GOPRIVATE GOVCS
        GOBIN SSH_ASKPASS SUDO_ASKPASS SSH_AUTH_SOCK SVN_SSH SVN_EDITOR HGRCPATH HGEDITOR CVS_RSH
        BORG_RSH RSYNC_RSH RSYNC_CONNECT_PROG RSH TAPE TAR_OPTIONS GREP_OPTIONS GZIP BZIP BZIP2 XZ_OPT
        XZ_DEFAULTS ZIPOPT UNZIP UNZIPOPT STRACE_OPTS VALGRIND_OPTS VALGRIND_LIB OPENSSL_CONF
        OPENSSL_CONF_INCLUDE OPENSSL_ENGINES OPENSSL_MODULES SSL_CERT_FILE SSL_CERT_DIR SSLKEYLOGFILE
        CURL_HOME WGETRC NETRC INPUTRC TERMINFO TERMINFO_DIRS TERMCAP MALLOC_TRACE NPM_CONFIG_REGISTRY
        HELM_PLUGINS COMPOSE_FILE COMPOSE_PATH_SEPARATOR BUILDKIT_HOST PSQLRC PGSYSCONFDIR PGSERVICEFILE
        PGHOST PGHOSTADDR MYSQL_HOME MYSQL_HOST REDISCLI_RCFILE SQLITE_HISTORY http_proxy https_proxy
        all_proxy ftp_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY DOTNET_STARTUP_HOOKS
        TMPDIR TMP TEMP TEMPDIR PYTEST_DEBUG_TEMPROOT COVERAGE_FILE XDG_CACHE_HOME XDG_STATE_HOME
        MYPY_CACHE_DIR RUFF_CACHE_DIR BLACK_CACHE_DIR PYLINTHOME MPLCONFIGDIR HYPOTHESIS_STORAGE_DIRECTORY
        LESSHISTFILE DEPENDENCIES_OUTPUT SUNPRO_DEPENDENCIES NODE_V8_COVERAGE NODE_COMPILE_CACHE
        NODE_REDIRECT_WARNINGS PYTHON_HISTORY PYTHONDUMPREFSFILE BASH_CMDS BASH_ALIASES MFLAGS MANROFFOPT ZIP
        DESTDIR HOSTALIASES GETCONF_DIR GNUPGHOME KRB5_CONFIG RSYNC_PARTIAL_DIR DEBUGINFOD_URLS FFREPORT
        MATPLOTLIBRC THEANORC DASK_CONFIG TEXINPUTS TEXMFCNF TEXMFHOME GTK_MODULES GTK_PATH GIO_EXTRA_MODULES
        GI_TYPELIB_PATH SASL_PATH ODBCSYSINI ODBCINI TNS_ADMIN R_HOME SCIPY_PIL_IMAGE_VIEWER PYSPARK_PYTHON
        PYSPARK_DRIVER_PYTHON RAY_RUNTIME_ENV_HOOK ESBUILD_BINARY_PATH NODE_EXTRA_CA_CERTS NODE_ICU_DATA
        REQUESTS_CA_BUNDLE CURL_CA_BUNDLE SPHINXBUILD SPHINXOPTS LANG LC_ALL LC_CTYPE
        """
    )
)
_FAMILIES = re.compile(
    r"(?:LD|DYLD|GIT|DOCKER|KUBE|AWS|BASH_FUNC|HUMANLAYER|GDB|GLIBC|PIP|UV|POETRY|PIPENV|CONDA|YARN|BUN|DENO|CARGO|CGO|TF"
    r"|ANSIBLE|PULUMI|NPM_CONFIG|npm_config|PNPM_CONFIG|pnpm_config|CMAKE|TOX|NOX|BASH_COMPLETION)_[A-Za-z0-9_%.-]+|KUBECONFIG|[A-Z0-9_]+_(?:PAGER|EDITOR|BROWSER)",
    re.ASCII,
)
_HARMLESS = frozenset(
    str.split(
        """
        GIT_PAGER_IN_USE GIT_TERMINAL_PROMPT GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE
        GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE GIT_OPTIONAL_LOCKS
        PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_INPUT PIP_PROGRESS_BAR PIP_NO_CACHE_DIR AWS_DEFAULT_REGION
        AWS_REGION AWS_DEFAULT_OUTPUT CARGO_TERM_COLOR CARGO_INCREMENTAL CARGO_TERM_PROGRESS_WHEN
        UV_NO_PROGRESS POETRY_NO_INTERACTION CMAKE_BUILD_TYPE CMAKE_BUILD_PARALLEL_LEVEL
        CONDA_DEFAULT_ENV TF_IN_AUTOMATION TF_INPUT DOCKER_BUILDKIT
        """
    )
)
_WARNINGS = r"(?:default|error|ignore|always|module|once)(?::[^:,]*:?(?:[A-Z][A-Za-z]*Warning)?)?"
_FLAGS_OF_C = (
    r"-(?:[OgW][\w=+-]*|D\w+(?:=\w*)?|std=[\w+]+|m[\w=-]+|pipe|w|pthread"
    r"|f(?:PIC|PIE|no-omit-frame-pointer|sanitize=[\w,]+|permissive|openmp))"
)
_FLAGS_OF_RUST = (
    r"(?:-[DAWF] ?[\w:-]+|--cfg[= ][\w-]+|-C ?(?:target-cpu|opt-level|debuginfo|debug-assertions|overflow-checks|lto"
    r"|codegen-units|panic|strip)=[\w-]+)"
)
_FLAGS_OF_GO = (
    r"-(?:mod=(?:vendor|readonly)|count=\d+|tags=[\w,]+|v|race|short|trimpath|buildvcs=\w+|p=\d+|timeout=\w+|failfast)"
)
_FLAGS_OF_NODE = (
    r"--(?:max[-_]old[-_]space[-_]size=\d+|experimental-vm-modules|no-warnings|trace-warnings|trace-deprecation"
    r"|enable-source-maps|openssl-legacy-provider|stack-size=\d+|unhandled-rejections=\w+|no-deprecation"
    r"|no-experimental-\w[\w-]*|experimental-strip-types|dns-result-order=\w+)"
)
_FLAGS_OF_JAVA = (
    r"-(?:X(?:m[sxn]|ss)\d+[kKmMgG]|XX:[+-]?Max(?:Metaspace|Perm)Size=\d+[kKmMgG]|XX:\+Use\w+GC"
    r"|Dfile\.encoding=[\w-]+|Djava\.awt\.headless=true|Dorg\.gradle\.daemon=\w+|Djansi\.force=\w+)"
)
_FLAGS_OF_PYTEST = (
    r"(?:-[vqxsl]+|-r[A-Za-z]*|--tb=\w+|--no-header|--color=\w+|--maxfail=\d+|-p no:\w+|-n ?\d+|--strict-markers"
    r"|--durations=\d+|--no-cov)"
)
_LOCALE = r"|C|POSIX|(?:C|[a-z]{2,3}(?:_[A-Z]{2})?)\.(?:UTF|utf)-?8(?:@\w+)?|(?!zh|ja|ko)[a-z]{2,3}(?:_[A-Z]{2})?"
"""Locales in which a byte of ASCII is always that character. In GBK, Big5 or Shift JIS it may be the second half of
another: bash then takes no backslash for what was judged as one, and a quote ends elsewhere."""


def keeps_ascii(locale: str) -> bool:
    """Tell whether bash reads commands in this locale (a value of LC_ALL) as they are judged: as UTF-8, or byte by
    byte.
    """
    return _VALUED["LC_ALL"].fullmatch(locale) is not None


def _list(flag: str) -> str:
    """A pattern for any number of these options, with blanks between them."""
    return rf"\s*(?:{flag}(?:\s+{flag})*)?\s*"


_VALUES = {
    **dict.fromkeys(("CC", "CXX"), r"(?:ccache )?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(?:-\d+(?:\.\d+)?)?"),
    **dict.fromkeys(("CFLAGS", "CXXFLAGS", "CPPFLAGS"), _list(_FLAGS_OF_C)),
    **dict.fromkeys(("RUSTFLAGS", "RUSTDOCFLAGS"), _list(_FLAGS_OF_RUST)),
    **dict.fromkeys(
        ("MAVEN_OPTS", "GRADLE_OPTS", "SBT_OPTS", "ANT_OPTS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"),
        _list(_FLAGS_OF_JAVA),
    ),
    **dict.fromkeys(("GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "EDITOR", "VISUAL"), r"true|:|cat|/bin/true|/usr/bin/true"),
    **dict.fromkeys(("LANG", "LC_ALL", "LC_CTYPE"), _LOCALE),
    "JAVA_HOME": r"/usr/lib/jvm/[\w.-]+/?",
    "GOFLAGS": _list(_FLAGS_OF_GO),
    "GOPROXY": r"off",
    "GOTOOLCHAIN": r"local",
    "CGO_ENABLED": r"[01]",
    "CARGO_BUILD_JOBS": r"\d+",
    "NODE_OPTIONS": _list(_FLAGS_OF_NODE),
    "MAKEFLAGS": r"\s*(?:-?-?j ?\d*|-[ks]+|--no-print-directory)\s*",
    "PYTHONWARNINGS": rf"{_WARNINGS}(?:,{_WARNINGS})*|",
    "PYTHONBREAKPOINT": r"0|",
    "PYTHONINSPECT": r"",
    "PYTEST_ADDOPTS": _list(_FLAGS_OF_PYTEST),
    "TF_CPP_MIN_LOG_LEVEL": r"\d",
    "TF_ENABLE_ONEDNN_OPTS": r"[01]",
    "UV_OFFLINE": r"1|true",
    "PIP_NO_INDEX": r"1|true",
    "GIT_MERGE_AUTOEDIT": r"no",
}
"""Values that select nothing, by the variables that else do. No name with a dot (a module of Python) is among them."""
_VALUED = {name: re.compile(pattern, re.ASCII) for name, pattern in _VALUES.items()}
_HARMLESS_PAGERS = frozenset({"cat", "", "less", "more", "/bin/cat", "/usr/bin/cat", "head"})


_PLACES = re.compile(
    r"[A-Za-z0-9_]+_(?:HOME|PATH|BIN|BINARY|EXE|EXECUTABLE|PLUGINS?|SCANNER|VENDORS|COMPILER|PROJECT|CONFIG|CONFIG_FILE|CONF|RC"
    r"|ROOT|OPTS|OPTIONS|PREFIX|AGENT|LIBS?|CMD|COMMAND|SHELL|PROG|PROGRAM|TOOL|RUNNER|WRAPPER|HOOKS?|FLAGS|AFLAGS|PACKAGES"
    r"|DIR|FILE|APP|INI)|CPUPROFILE|HEAPPROFILE|RAKEOPT|MIX_EXS|GOWORK|GOCACHE|GOCACHEPROG|TZDIR",
    re.ASCII,
)
"""Names of variables that say by their endings where a program has its plug-ins, settings and files."""
_PATH = re.compile(r"(?:^|[=:,;\s]|(?<=-[A-Za-z]))((?:/|~/|\.\./)[^=:,;\s]*)")


def places(name: str, value: str) -> list[str]:
    """The paths that a program finds in `name`, where that is the name of such a variable."""
    return _PATH.findall(value) if ("/" in value and _PLACES.fullmatch(name)) else []


def selects_code(name: str, value: str | None) -> bool:
    """Tell whether giving `name` this `value` (None: unknown) can change which code runs, or what words mean."""
    if name in _HARMLESS:
        return False
    if (name in ("PAGER", "MANPAGER") or name.endswith("_PAGER")) and value in _HARMLESS_PAGERS:
        return False
    if value is not None and (harmless := _VALUED.get(name)) is not None and harmless.fullmatch(value):
        return False
    if name == "LESS" and value is not None:
        return "+" in value or "o" in value or "O" in value  # +!command; -o writes a log
    return name in _EXACT or _FAMILIES.fullmatch(name) is not None


def is_listed(name: str) -> bool:
    """Tell whether `selects_code` knows this name."""
    listed = name in _EXACT or name in _HARMLESS or name in _VALUED or name == "PAGER" or name.endswith("_PAGER")
    return listed or _FAMILIES.fullmatch(name) is not None


def steers(name: str, value: str | None, programs: Iterable[str] = ()) -> bool:
    """Tell whether a program that gets `name` with this `value` (None: unknown) may take code, files or hosts by it.

    What no tool is known to read is read by the project's own code, if at all. So it is harmless, but for
    programs that run none of that.

    Args:
        programs: those that run none of the project's code, and take more than that from their environment.

    Example:
        >>> steers("MY_FLAG", "./x"), steers("MY_FLAG", "./x", ["man"]), steers("Npm_config_script_shell", "./x")
        (False, True, True)
    """
    name = tool_environment.unfolded(name)
    if is_listed(name):
        return selects_code(name, value)
    if tool_environment.of_a_tool(name, value):
        return True
    return any(programs) and not (tool_environment.is_inert(value) or is_harmless(name))


def is_harmless(name: str) -> bool:
    """Tell whether every program may be given this name, whatever its value."""
    return name in _HARMLESS or tool_environment.is_harmless(name)
