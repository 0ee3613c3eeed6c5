import time, pytest
import tests.chaos.test_accounting_storm as t
from tests.chaos.test_accounting_storm import *
T0=time.monotonic()
def timed(name, owner=t):
    f=getattr(owner,name)
    async def g(*a,**k):
        s=time.monotonic()
        try: return await f(*a,**k)
        finally: print(f"PHASE {name} began {s-T0:.1f} took {time.monotonic()-s:.1f}")
    setattr(owner,name,g)
for n in ("hit","at_rest","closed","judged","shown_in_the_end","totals_faults","weathered"): timed(n)
timed("send", t.Traffic)
_u=t.until
async def until(what, c, **k):
    s=time.monotonic()
    try: return await _u(what,c,**k)
    finally: print(f"  until {what}: {time.monotonic()-s:.1f}")
t.until=until

_j=t.judged
async def judged(stage, model):
    rows=await stage.store.database["usage"].find().to_list(None)
    rep={t_num(r) for r in rows if r["status"]=="reported"}
    for a in model.asked:
        if a.end=="served" and a.number not in rep:
            print("UNREPORTED",a)
            for r in rows:
                if r["run_id"]==a.run_id and r["status"]=="missing": print("     ",r["_id"],r["agent"],r["model"],r["error"],r["duration_s"],r["at"])
            run=await stage.run(a.run_id)
            print("      run",run["workflow"],[(h["token"],h["ended"],h["reason"],h["until"]) for h in run["history"]], run["state"], run.get("cancel_requested"))
    return await _j(stage,model)
from tests.chaos.auditing_replies import number_of as t_num
t.judged=judged
import psutil
def cpu(what):
    me=psutil.Process(); print("CPU", what, end=": ")
    for p in [me,*me.children(recursive=True)]:
        try:
            x=p.cpu_times(); print(f"{p.pid} {' '.join(p.cmdline())[-30:]!r} {x.user+x.system:.1f}+{x.children_user+x.children_system:.1f}", end=" | ")
        except psutil.Error: pass
    print()
_r=t.at_rest
async def at_rest(stage):
    cpu("sent"); await _r(stage); cpu("rest")
t.at_rest=at_rest
