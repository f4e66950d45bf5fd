"""Chaos: real jobs on real sshd hosts under random trouble, and a checker that compares what the nodes wrote down with
what mgpu says. `scripts/chaos` runs it; docs/reliability.md tells what it proves.

    job.sh     the job: writes down on its node what it does, and says the same on its streams
    plans      from a seed: which jobs, which faults, when
    faults     the faults carried out, one place a node, and lifted
    clients    the commands of the people who submit, watch and cancel
    campaign   the run: plans carried out on a lab, until the queue is empty
    evidence   what a job wrote down, read back
    checker    pure: evidence and mgpu's word in, violations out
"""
