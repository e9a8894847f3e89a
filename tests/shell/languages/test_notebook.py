"""Notebooks: their cells are judged where they are run, and where they are written."""

import json
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.languages import notebook
from humanlayer_agent.shell.program import Program


def look(command: str, files: dict[str, str] | None = None, tracked: tuple[str, ...] = ()) -> Program:
    reader = GivenReader({f"/p/{k}": v for k, v in (files or {}).items()}, [f"/p/{t}" for t in tracked])
    return analyse(command, cwd="/p", environ={"HOME": "/home/u"}, reader=reader)


def effects(program: Program) -> set[str]:
    out = set()
    for each in (e for c in program.commands for e in c.effects):
        operand = each.pattern or each.operand or ""
        shown = posixpath.relpath(operand, "/p") if (operand + "/").startswith("/p/") else operand
        out.add("!" * each.unread + "?" * (not each.resolved) + f"{each.kind} {shown}")
    return out


def certain(program: Program) -> bool:
    return program.status == "ok" and all(c.resolved for c in program.commands)


def cells(*sources: str, **metadata: object) -> str:
    listed = [{"cell_type": "code", "source": source, "outputs": []} for source in sources]
    return json.dumps(
        {"cells": [*listed, {"cell_type": "markdown", "source": "rm"}], "metadata": metadata, "nbformat": 4}
    )


REMOVE = "import os\nos.remove('/srv/x')\n"
RUN = "jupyter nbconvert --to notebook --execute a.ipynb"


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([REMOVE], {"delete /srv/x"}),
        (["x = '/srv/y'\n", "import os\nos.remove(x)"], {"delete /srv/y"}),
        (["!rm /srv/z"], {"delete /srv/z"}),
        (["x = !rm /srv/z"], {"delete /srv/z"}),
        (["if 1:\n    !rm /srv/z"], {"delete /srv/z"}),
        (["!rm /srv/z \\\n  /srv/y"], {"delete /srv/y", "delete /srv/z"}),
        (["!!rm /srv/z"], {"delete /srv/z"}),
        (["%%bash\nfor i in $(seq 2); do rm /srv/z; done\n"], {"delete /srv/z"}),
        (["\n%%sh\nrm /srv/z\n"], {"delete /srv/z"}),
        (["rm /srv/z"], {"delete /srv/z"}),
        (["%rm /srv/z"], {"delete /srv/z"}),
        (["%cd /srv", "import os\nos.remove('z')"], {"delete /srv/z"}),
        (["cd /srv", "import os\nos.remove('z')"], {"delete /srv/z"}),
        (["%time __import__('os').remove('/srv/x')"], {"delete /srv/x"}),
        (["%%time\nimport os\nos.remove('/srv/x')"], {"delete /srv/x"}),
        (["%%capture out\n!rm /srv/z"], {"delete /srv/z"}),
        (["%pip install x"], {"package x", "package install"}),
        (["%run b.py"], {"delete /srv/b"}),
        (["%%writefile /srv/w\nx\n"], {"write /srv/w"}),
        (["%env LD_PRELOAD=./x.so"], {"environment LD_PRELOAD"}),
    ],
)
def test_what_cells_do(sources: list[str], expected: set[str]) -> None:
    files = {"a.ipynb": cells(*sources), "b.py": "import os\nos.remove('/srv/b')\n"}
    assert expected <= effects(look(RUN, files))


@pytest.mark.parametrize(
    "source",
    [
        "%load_ext evil", "%%html2\nx", "%%perl\nx", "%%script ls\nx", "%alias x ls", "%config Application.x = y()", "!ls {x}", "!ls $x",
        "%run x.ipynb", "%macro x", "%%bash --out x\nls", "x = 1 +", "%logstart /srv/x", "%save x", "%matplotlib x; ls", "%%timeit -n 1\nx()",
        "a.b = !ls", "# no\n%%bash\nls", "%sx ls", "get_ipython().system('ls')", "%history -f x", "%notebook x", "%edit x", "%store x",
    ],
)  # fmt: skip
def test_what_can_not_be_told(source: str) -> None:
    assert not certain(look(RUN, {"a.ipynb": cells(source)}))


@pytest.mark.parametrize(
    "source",
    [
        "print(1)", "%matplotlib inline\nimport math\nprint(math.pi)", "%load_ext autoreload\n%autoreload 2", "!ls -la", "%%bash\nls\n",
        "%config InlineBackend.figure_format = 'retina'", "?print", "print?", "%time sum([1])", "x = 3 % 2", "%%markdown\n# x\n", "",
        "open('out.txt', 'w').write('x')", "%pwd", "%env A=b",
    ],
)  # fmt: skip
def test_harmless_cells(source: str) -> None:
    program = look(RUN, {"a.ipynb": cells(source, kernelspec={"name": "python3"})})
    assert certain(program), [c.unresolved for c in program.commands]


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"name": "bash"}},
        {"kernelspec": {"name": "ir"}},
        {"language_info": {"name": "R"}},
        {"kernelspec": 1},
        {"kernelspec": {"name": 1}},
    ],
)
def test_other_kernels(metadata: dict[str, object]) -> None:
    assert not certain(look(RUN, {"a.ipynb": cells("print(1)", **metadata)}))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (RUN, {"delete /srv/x", "write a.nbconvert.ipynb", "execute a.ipynb", "execute ."}),
        ("jupyter nbconvert --execute --inplace a.ipynb", {"delete /srv/x", "write a.ipynb", "execute a.ipynb", "execute ."}),
        ("jupyter nbconvert --execute --to html --output-dir /srv/o a.ipynb", {"delete /srv/x", "write /srv/o/a.html", "execute a.ipynb", "execute ."}),
        ("jupyter nbconvert --to script a.ipynb", {"read a.ipynb", "write a.py", "write a.txt", "execute ."}),
        ("jupyter nbconvert --stdout --to markdown a.ipynb", {"read a.ipynb", "execute ."}),
        ("jupyter-nbconvert --execute --stdout a", {"delete /srv/x", "execute a.ipynb", "execute ."}),
        ("python -m nbconvert --execute --stdout a.ipynb", {"delete /srv/x", "execute a.ipynb", "execute ."}),
        ("python -m jupyter run a.ipynb", {"delete /srv/x", "execute a.ipynb", "execute ."}),
        ("jupyter execute a.ipynb", {"delete /srv/x", "execute a.ipynb", "execute ."}),
        ("papermill a.ipynb b.ipynb", {"delete /srv/x", "execute a.ipynb", "write b.ipynb"}),
        ("papermill -p x 1 a.ipynb b.ipynb", {"!?execute a.ipynb", "write b.ipynb"}),
        ("papermill --cwd d a.ipynb b.ipynb", {"delete /srv/x", "execute a.ipynb", "write b.ipynb"}),
    ],
)  # fmt: skip
def test_programs_that_run_notebooks(command: str, expected: set[str]) -> None:
    assert effects(look(command, {"a.ipynb": cells(REMOVE)})) == expected


def test_the_directory_of_the_kernel() -> None:
    """Some runners start the kernel where the notebook lies: both places count."""
    found = effects(look("jupyter run d/a.ipynb", {"d/a.ipynb": cells("import os\nos.remove('x')")}))
    assert {"delete x", "delete d/x"} <= found


def test_notebooks_of_the_project() -> None:
    program = look("jupyter run a.ipynb", {"a.ipynb": cells(REMOVE)}, ("a.ipynb",))
    assert effects(program) == {"execute a.ipynb", "execute ."}
    assert certain(program)


@pytest.mark.parametrize(
    "command",
    ["jupyter run a.ipynb", "papermill a.ipynb b.ipynb", "papermill s3://x/a.ipynb b.ipynb", "jupyter run $X"],
)
def test_notebooks_that_nobody_can_read(command: str) -> None:
    assert any(e.startswith("!") for e in effects(look(command)))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"cells": 1}', '{"cells": [1]}', '{"cells": [{"cell_type": "code", "source": 1}]}']
)
def test_what_is_no_notebook(text: str) -> None:
    assert any(e.startswith("!") for e in effects(look("jupyter run a.ipynb", {"a.ipynb": text})))


def test_written_notebooks_are_judged() -> None:
    assert "delete /srv/x" in effects(look(f"cat > a.ipynb <<'E'\n{cells(REMOVE)}\nE"))
    assert "delete /srv/z" in effects(look(f"cat > a.ipynb <<'E'\n{cells('!rm /srv/z')}\nE"))


def test_old_notebooks() -> None:
    old = json.dumps(
        {"worksheets": [{"cells": [{"cell_type": "code", "input": ["import os\n", "os.remove('/srv/x')"]}]}]}
    )
    assert "delete /srv/x" in effects(look("jupyter run a.ipynb", {"a.ipynb": old}))


LINES = st.lists(
    st.sampled_from(
        ["%", "%%", "!", "bash", "cd x", "\n", "\\\n", "x = ", "'", "?", "time ", "{x}", " ", "print(1)", "#"]
    ),
    max_size=12,
)


@given(st.lists(LINES.map("".join), max_size=3), st.text(max_size=40))
def test_any_text(sources: list[str], text: str) -> None:
    notebook.whole(cells(*sources), "/p/a.ipynb", None)
    notebook.whole(text, "/p/a.ipynb", None)
