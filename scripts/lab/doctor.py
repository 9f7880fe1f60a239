"""Scenarios of kernel settings: the findings of `taut doctor`, and whether its fixes work."""

import json
import os
import resource
import subprocess

from lab import guest
from lab.guest import sh
from lab.judge import Wrong
from lab.scenarios import scenario


def findings():
    """Findings by the name of the check; the last one of several."""
    run = subprocess.run([guest.taut, "doctor", "--report", "json"], capture_output=True, text=True)
    if run.returncode not in (0, 1):
        raise Wrong(f"taut doctor ended with {run.returncode}: {run.stderr.strip()}")
    return {finding["check"]: finding for finding in json.loads(run.stdout)["findings"]}


@scenario("all", "cards")
def the_doctor_knows_a_preempt_rt_kernel_and_mends_the_interrupts_of_its_network():
    sh("ip link set eth0 up")
    try:
        before = findings()
        threads = before["interrupt-threads"]
        if threads["verdict"] != "warning" or "eth0" not in threads["message"]:
            raise Wrong(f"interrupts at the kernel's priority: {threads}")
        subprocess.run(threads["fix"], shell=True, check=True)
        after = findings()["interrupt-threads"]
    finally:
        sh("ip link set eth0 down")
    for finding, words in ((before["preemption"], "is PREEMPT_RT"), (after, "run above fifo:70")):
        if finding["verdict"] != "ok" or words not in finding["message"]:
            raise Wrong(f"not ‘{words}’: {finding}")
    return f"{before['preemption']['what']}; {threads['what']}; fixed: {after['what']}"


@scenario("short", "all")
def a_priority_up_to_95_which_debian_grants_with_jack_serves_the_stall_witness_too():
    def become_nobody():
        resource.setrlimit(resource.RLIMIT_RTPRIO, (95, 95))
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    send = [guest.taut, "send", "--input", "null:", "--to", "rtp://127.0.0.1:5004", "--duration", "200ms"]
    run = subprocess.run(send + ["--report", "json"], capture_output=True, text=True, preexec_fn=become_nobody)
    if run.returncode != 0:
        raise Wrong(f"taut send ended with {run.returncode}: {run.stderr.strip()}")
    host = json.loads(run.stdout)["host"]
    refused = {field: why for field, why in host["refused"].items() if "priority" in field and why}
    if refused:
        raise Wrong(f"refused: {refused}")
    return "both threads got their priority"
