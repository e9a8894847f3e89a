"""Names that mean something wherever they stand: builtins, modules, methods, attributes."""

import builtins


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BUILTIN_TYPES = frozenset(n for n in dir(builtins) if n[0] != "_" and isinstance(getattr(builtins, n), type))
BUILTINS = frozenset(dir(builtins)) | {"__file__", "exit", "quit", "help", "copyright", "credits", "license"}
PYTHON2 = _words("execfile unicode raw_input reload unichr xrange long file")

PLAIN_NAMES = _words(
    "__name__ __doc__ __package__ __debug__ __annotations__ __path__ __spec__ __version__ NotImplemented Ellipsis"
)

REACHED = _words(
    """
    os sys subprocess shutil builtins importlib ctypes pty posix nt runpy pickle cPickle marshal socket tempfile
    pathlib shelve urllib requests httpx smtplib ftplib telnetlib paramiko multiprocessing threading atexit imp
    commands popen2 fileinput zipfile tarfile webbrowser _posixsubprocess cffi dill cloudpickle pexpect
    """
)
"""An attribute of any library module with such a name is that module: np.os, requests.sessions.os."""
REACHED_ANYWHERE = _words("os sys subprocess shutil builtins importlib ctypes pty posix runpy")
"""The same for any object at all."""

# ---- attributes that lead into the interpreter ------------------------------------------------------
DOUBTFUL = _words(
    """
    __globals__ func_globals __closure__ func_closure cell_contents __loader__ f_globals f_builtins f_locals
    __import__ load_module
    """
)
"""Reading one gives names or code of somebody else."""
PECULIAR = DOUBTFUL | {"mro"}
NOT_TO_SET = _words(
    "__code__ __globals__ __builtins__ __bases__ __closure__ __import__ __loader__ __defaults__ __kwdefaults__ f_locals"
)
ANCESTORS = _words("__base__ __bases__ __mro__ mro __orig_bases__")
PLAIN_ATTRIBUTES = _words(
    """
    __name__ __qualname__ __doc__ __module__ __file__ __version__ __package__ __annotations__ __slots__
    __spec__
    """
)
ALIASES = {
    "bltns": "builtins",
    "mp": "multiprocessing",
    "TK": "tkinter",
    "_pyprofile": "profile",
    "reducer": "multiprocessing.reduction",
    "_collections_abc": "collections.abc",
}
"""Modules of the standard library under the names that others of it give them."""
SAME_OBJECT = _words(
    "__call__ __func__ __wrapped__ __get__ __enter__ __aenter__ __origin__ __iter__ __await__ __aiter__"
)
"""What such an attribute of a function gives is, or calls, that function."""
LOOKUPS = _words("__getattribute__ __getattr__")

CALLED_BY_NAME = _words("__init__ __new__ __call__ __post_init__")
"""Special methods that are called as other functions are, with arguments that are seen."""

# ---- methods of objects that are not known ----------------------------------------------------------
UNMISTAKABLE = {
    **dict.fromkeys(("unlink", "rmdir"), "delete"),
    "rmtree": "delete",
    "removedirs": "delete",
    **dict.fromkeys(("write_text", "write_bytes", "symlink_to", "hardlink_to", "touch"), "write"),
    **dict.fromkeys(("chmod", "chown", "lchmod"), "metadata"),
    **dict.fromkeys(("system", "popen", "getoutput", "getstatusoutput"), "shell"),
    **dict.fromkeys(("Popen", "check_output", "check_call"), "program"),
    **dict.fromkeys(("execv", "execve", "execvp", "execvpe", "execl", "execlp", "execle"), "program"),
    **dict.fromkeys(("spawnv", "spawnve", "spawnvp", "spawnl", "spawnlp", "posix_spawn"), "program"),
    "send_bytes": "doubt",  # of multiprocessing: the other end makes objects of them
}
"""Methods that do on any object what they do on those of the standard library, and the kind of what they do."""

FILE_WORDS = _words(
    """
    open read write save load dump remove delete unlink rmtree copy move rename replace mkdir makedirs mkdirs
    touch chmod chown download upload export append truncate purge wipe clean clear destroy extract extractall
    unpack tofile fromfile savetxt savez savefig imread imwrite imsave path file files dir directory folder rm
    rmdir cp mv link symlink to_csv to_json to_excel to_parquet to_pickle to_hdf to_html to_sql read_csv read_json
    read_excel read_parquet
    """
)
"""Parts of a function's name that say that it works on files."""
COMMAND_WORDS = _words("spawn shell system popen subprocess bash sh sudo exec eval")
"""Parts of a function's name that say that it runs a command or code."""
IMPORT_WORDS = _words("import imports importorskip locate resolve loads load symbol qualname dotted pydoc")
"""Parts of the name of a function that makes a module or function of a text."""
HTTP_VERBS = _words("get post put patch delete head options request route websocket trace connect")
ROOTS = _words(
    """
    bin boot dev etc home lib lib32 lib64 media mnt nonexistent opt private proc root run sbin srv sys tmp usr var
    data Applications Library System Users Volumes
    """
)
"""First components of paths that lie outside any project."""

SHELLS = _words("sh bash dash zsh ksh fish csh tcsh busybox")
READERS = SHELLS | _words(
    "python python2 python3 perl ruby node php lua tclsh ed ex awk gawk xargs parallel at batch ssh sudo env su"
)
"""Programs that run what they read from their input."""

# ---- functions that only look at what they are given ------------------------------------------------
INERT = _words(
    """
    builtins.print builtins.repr builtins.isinstance builtins.issubclass builtins.hasattr builtins.callable
    builtins.id builtins.hash builtins.len builtins.dir builtins.help builtins.bool builtins.any builtins.all
    builtins.ascii builtins.format builtins.input builtins.sum builtins.delattr inspect.signature
    inspect.getsource inspect.getsourcefile inspect.getsourcelines inspect.getfile inspect.getdoc
    inspect.isfunction inspect.ismodule inspect.isclass inspect.ismethod inspect.isroutine inspect.isbuiltin
    inspect.iscoroutinefunction inspect.isgeneratorfunction inspect.getfullargspec inspect.getmodule
    inspect.getmro inspect.iscoroutine inspect.isawaitable inspect.isabstract inspect.isdatadescriptor
    inspect.ismethoddescriptor inspect.isgenerator inspect.isasyncgenfunction inspect.getcomments inspect.cleandoc
    importlib.reload dis.dis typing.cast pprint.pprint pprint.pformat reprlib.repr asyncio.iscoroutinefunction
    sys.getsizeof sys.getrefcount types.ModuleType builtins.super unittest.mock.create_autospec unittest.mock.seal
    """
)
KEEPS = _words(
    """
    itertools.chain itertools.cycle itertools.repeat itertools.islice itertools.tee itertools.product
    itertools.permutations itertools.combinations itertools.zip_longest itertools.compress copy.copy copy.deepcopy
    collections.deque collections.OrderedDict collections.Counter collections.ChainMap collections.UserDict
    collections.UserList types.MappingProxyType operator.itemgetter random.choice random.sample random.choices
    heapq.merge heapq.nlargest heapq.nsmallest statistics.mode typing.cast contextlib.nullcontext
    contextlib.closing builtins.iter builtins.next asyncio.gather asyncio.wait_for asyncio.run asyncio.create_task
    asyncio.shield asyncio.ensure_future
    """
)
"""What these give is, or holds, what they are given."""
FILLING = _words(
    """
    heapq.heappush heapq.heappushpop heapq.heapreplace heapq.heapify random.shuffle operator.delitem bisect.insort
    bisect.insort_left bisect.insort_right operator.iadd operator.iconcat operator.setitem operator.ior operator.imul
    """
)
"""These put their arguments into the first of them."""
DECORATORS = _words(
    """
    functools.wraps functools.lru_cache functools.cache functools.total_ordering builtins.staticmethod
    builtins.classmethod builtins.property functools.cached_property contextlib.contextmanager
    contextlib.asynccontextmanager dataclasses.dataclass abc.abstractmethod typing.overload typing.final
    typing.override typing.no_type_check typing.runtime_checkable enum.unique enum.verify unittest.skip
    unittest.skipIf unittest.skipUnless unittest.expectedFailure functools.update_wrapper
    """
)
"""Decorators that leave a function as it is."""
PLAIN_BASES = (
    "TestCase",
    "Exception",
    "Error",
    "Warning",
    "ABC",
    "Enum",
    "Flag",
    "Protocol",
    "Generic",
    "object",
    "NamedTuple",
    "TypedDict",
    "type",
)
"""Endings of names of classes that call no methods of their heirs but those known to everybody."""
CALLED_BY_BASES = ("test", "setUp", "tearDown", "asyncSetUp", "asyncTearDown", "run")
