"""Faults at random moments of real commands, and a comparison with uninterrupted ones.

    make torture SECONDS=3600 SEED=7             for an hour
    python -m tests.torture --seed 7 --story 12  one story again

A story is one command in an empty directory: a run, seeds side by side, a run that branches from
another, a study, a search. It is interrupted several times, each time resumed as a user would
resume it, and in the end left to finish. Then every table, record and checkpoint must be that of
the same command without faults, byte for byte (but for measured times). The faults:

    kill        kill -9 of the command
    worker      kill -9 of one of its worker processes
    terminate   SIGTERM to the command
    disk        the disk is full: the stories are on a file system of their own, which is filled
    clock       the system's clock jumps by up to ten years, back and forth, many times

The clock that jumps is the one that Python's ``time.time`` reads (``site/sitecustomize.py``): the
machine's own clock is left alone. Everything is drawn from the seed. The moments are numbers of
evaluations, plus some milliseconds, so that a repetition comes close to the same moments.
"""
