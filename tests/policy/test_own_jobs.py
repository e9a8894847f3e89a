"""`kill $!` ends a job of the same command line; whatever may be another process is not its job."""

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.director import Director
from tests.support.rows import for_each

PROJECT = "/nowhere/project"

OWN = [
    "sleep 5 & PID=$!; sleep 1; kill $PID",
    "sleep 5 & kill $!",
    'sleep 5 &\nPID=$!\nkill -9 "$PID"',
    "sleep 5 & PID=$!; kill -TERM $PID 2>/dev/null; wait $PID",
    "sleep 5 & A=$!; sleep 6 & B=$!; kill $A $B",
    "PYTHONPATH=. pytest > out.txt 2>&1 &\nPID=$!\nsleep 5\nkill $PID",
    "sleep 5 & PID=$!; kill -0 $PID && kill $PID",
    "sleep 5 & if ls; then PID=$!; else PID=$!; fi; kill $PID",
    "f() { sleep 5 & PID=$!; }; f; kill $PID",
    "sleep 5 & PID=$!; timeout 5 kill $PID",
]
PERHAPS_ANOTHER = [
    "sleep 5 & PID=$!; kill $PID 1",
    "sleep 5 & PID=$!; kill -$PID",
    "sleep 5 & PID=$!; kill -- -$PID",
    "sleep 5 & PID=$!; kill ${PID}1",
    "sleep 5 & PID=$!; PID=1; kill $PID",
    "sleep 5 & PID=$!; PID+=1; kill $PID",
    "sleep 5 & PID=$!; read PID; kill $PID",
    "sleep 5 & PID=$!; read PID < pid; kill $PID",
    "sleep 5 & PID=$!; let PID=1; kill $PID",
    "sleep 5 & PID=$!; (( PID-- )); kill $PID",
    "sleep 5 & PID=$!; for PID in $(pgrep x); do kill $PID; done",
    "sleep 5 & PID=$!; IFS=1; kill $PID",
    "sleep 5 & IFS=2 ; kill $!",
    "sleep 5 & PID=$!; source x.sh; kill $PID",
    'sleep 5 & PID=$!; eval "$X"; kill $PID',
    "sleep 5 & PID=$!; declare -n R=PID; R=1; kill $PID",
    "sleep 5 & PID=$!; f() { PID=1; }; f; kill $PID",
    "sleep 5 & PID=$!; printf -v PID %s 1; kill $PID",
    "sleep 5 & PID=$!; [ x ] && PID=$(pgrep y); kill $PID",
    "if [ -f x ]; then PID=$!; fi; kill $PID",
    "declare -i PID; PID=$!; kill $PID",
    "PID=$(pgrep x); kill $PID",
    "kill $PPID",
    "kill $$",
    "PID=$!; kill ${PID:-1}",
    "PID=$!; kill ${PID%2}",
    "PID=$!; kill ${!PID}",
    "PID=$!; bash -c 'kill $PID'",
    "PID=$!; export PID; bash -c 'kill $PID'",
    "PID=$!; pkill $PID",
    "PID=$!; sudo kill $PID",
    "trap 'kill $PID' EXIT; PID=1",
    "PID=$!; while read x; do PID=$x; done < f; kill $PID",
    "PID=$!; while read x; do kill $PID; PID=$x; done < f",
    "kill $! $(pgrep x)",
    "kill -9 $! -1",
    "PID=$!; unset PID; PID=$PPID; kill $PID",
    "PID=$!; readonly PID; PID=1; kill $PID",
    "PID=$!; mapfile PID < x; kill $PID",
    "PID=$!; PID[0]=1; kill $PID",
    "PID=$!; getopts a PID; kill $PID",
    "PID=$!; wait -n -p PID; kill $PID",
    "PID=$!; kill $PID$X",
    'PID=$!; kill "$PID $X"',
    "PID=$!; : ${PID:=1}; kill $PID",
    "PID=$! true; kill $PID",
    "PID=1; PID=$! true; kill $PID",
    'local() { :; }; PID=$!; kill "$@"',
]


@pytest.fixture(scope="module")
def director() -> Director:
    return Director.load("default", project=PROJECT, environ={"HOME": "/home/somebody"})


@pytest.mark.parametrize("command", OWN)
def test_own_jobs_are_ended(director: Director, command: str) -> None:
    assert str(director.evaluate(Action(command, cwd=PROJECT)).verdict) == "allow"


@for_each("command", PERHAPS_ANOTHER)
def test_other_processes_are_asked_about(director: Director, command: str) -> None:
    assert str(director.evaluate(Action(command, cwd=PROJECT)).verdict) != "allow"
