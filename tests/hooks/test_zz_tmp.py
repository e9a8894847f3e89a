import time
from tests.hooks.test_wait import *
from tests.hooks.conftest import machine
def test_x(ask, person):
    one = ask("curl https://x.invalid/crash", "--deadline", "60")
    for n in range(3):
        one.request()
        time.sleep(2)
        for r in one.store.requests(): print(n, r.id, r.state, r.created, r.run_id if hasattr(r,'run_id') else '')
        for e in one.store.events(): print("   ", e.event["type"], {k:v for k,v in e.event.items() if k in ("instance","run","process","request")})
        killed = person.servers(); person.end()
        while person.servers() in (killed, []) and one.process.poll() is None: time.sleep(0.01)
    print(one.answer())
    assert 0
