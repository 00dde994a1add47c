# id: A2
# title: privileges of the process and of its parent
# attempts: capabilities, bounding set, no_new_privs, filter, no_new_privs of pid 1, filter of pid 1, capabilities of pid 1
# outside

for pid, of in ("self", ""), ("1", " of pid 1"):
    have = status_of(pid)
    sets = [int(have[k], 16) for k in ("CapInh", "CapPrm", "CapEff", "CapAmb")]
    judge("capabilities" + of, not any(sets) and (not of or not int(have["CapBnd"], 16)), "CapInh CapPrm CapEff CapAmb %s" % [hex(s) for s in sets])
    if not of:
        judge("bounding set", int(have["CapBnd"], 16) == 0, "CapBnd " + have["CapBnd"])
    judge("no_new_privs" + of, have["NoNewPrivs"] == "1", "NoNewPrivs " + have["NoNewPrivs"])
    judge("filter" + of, have["Seccomp"] == "2", "Seccomp " + have["Seccomp"])
