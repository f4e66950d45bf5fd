"""The queue from Python: what the commands do, with values instead of text."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from types import TracebackType
from typing import Any

from mgpu.client.http import MasterError, quote, with_query
from mgpu.client.locate import Location
from mgpu.client.output import Pieces
from mgpu.client.place import find, patience
from mgpu.client.submission import Prepared, with_place
from mgpu.client.taking_back import take_back
from mgpu.client.waiting import Waiting
from mgpu.sdk import asking, keywords
from mgpu.sdk.asking import AnyJob, Command
from mgpu.sdk.ending import Limit, Seconds, ended_of, seconds_of
from mgpu.sdk.following import Followed, Lines, Since, beginning_at
from mgpu.sdk.running import How, follow_to_the_end, given
from mgpu.sdk.values import (
    Completed,
    Job,
    JobFailed,
    JobId,
    Kind,
    Line,
    Node,
    Output,
    Prospects,
    Status,
    Submitted,
    number,
    read,
)
from mgpu.sdk.way import Way

MOST_OF_HISTORY = 100_000  # the master gives no more at once


class Client:
    """The way to a master: `with Client() as client: ...`.

    It finds the master as the commands do: `master` (a socket's path, `ssh://user@head`, `https://head:8443`), else
    MGPU_MASTER, else the user's config.yaml, else this machine, where a master of one's own is started if none runs
    (`start=False`: it is not). `config`, `state_dir`: as --config and --state-dir. `patience`: seconds for which a
    master that does not answer is asked again; None = as MGPU_CONNECTION_TIMEOUT says, else one that is not there is
    told at once, and one that went away while a job is followed is waited for.

    Whatever the master refuses, or the way to it, is a MasterError: `code` is stable (`bad_request`, `not_found`,
    `not_allowed`, `already_ended`, `busy`, `no_master` ...), `message` and `hint` are for people. Without a master it
    is its subclass NoMaster. Every request may be sent again without harm; where an answer is lost, that is done.

    Any number of threads may use one Client, and a process that was forked may go on using it: connections are kept
    between requests, and none is shared. An iterator that it returns belongs to one thread.
    """

    def __init__(
        self,
        master: str | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        state_dir: str | os.PathLike[str] | None = None,
        patience: Seconds | None = None,
        start: bool = True,
    ) -> None:
        """Nobody is asked yet. Raises MasterError where what is named is not there."""
        self._way = Way(
            partial(find, _path(config), _path(state_dir), master or "", os.environ), start, _patience(patience)
        )
        for text in self._way.location.warnings:
            warnings.warn(text, stacklevel=2)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections that were kept. The client can still be used: it makes new ones."""
        self._way.close()

    @property
    def location(self) -> Location:
        """Where the master is: its configuration, state directory and address."""
        return self._way.location

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """A request of the API as docs/api.md lists them, and the answer's JSON. Sent again where the answer was lost:
        a body that wishes for something needs a `request_id`. Raises MasterError."""
        return self._way.master().call(method, path, body)

    # --- jobs are queued --------------------------------------------------------------------------------------------

    def submit(
        self,
        command: Command,
        args: Iterable[object] = (),
        *,
        key: str | None = None,
        request_id: str | None = None,
        **options: Any,
    ) -> Submitted:
        """Queues a job; returns when the master has stored it.

        `command`: a list is a program's words, byte for byte; a str is a script if it names a file here, else a shell's
        command line, and with `args` a program's words; text that begins with #! is a script itself; a Path is a
        script that must be there. `args`: the script's arguments. A script's #MGPU and #SBATCH lines count, less than
        keywords.

        `options`: the long names of `mgpu submit`, with _ for -: gpus=2, nodes=2, gpu_type="A100", nodelist=["gpu01"],
        time=timedelta(hours=8), or a number of seconds, or Slurm's text, hold=True, array=range(100), dependency=
        "afterok:17", begin=datetime or timedelta, export={"LR": "0.1"} or a list of names, ship=True, ... None = not
        given. MGPU_ variables and the user's config.yaml hold as for a command, where a keyword does not say otherwise.

        `request_id`: 8 to 64 hexadecimal digits; submitted again with the same one (after a crash of this program, say)
        it is the same job. `key`: likewise, a name of your own, for as long as the master knows the job.

        Raises MasterError, TypeError for what is no option of a job."""
        return self._send(asking.prepared("batch", command, args, options, request_id, key))

    def submit_many(self, commands: Iterable[Command | asking.WithOptions], **options: Any) -> list[Submitted]:
        """Queues several jobs in one request: all of them, or none and MasterError says which is wrong.

        `commands`: each as `submit` takes it, or (command, its own options), which count more than `options`. 1000 at
        most; many tasks of one command are better an array. Returns them in that order."""
        made = list(asking.many(commands, options))
        if not made:
            return []
        for one in made:
            self._bring(one)
        answer = self.call("POST", "/v1/jobs/many", asking.wish(jobs=[one.body for one in made]))
        return read(lambda said: [_submitted(one) for one in said["jobs"]], answer)

    def test(self, command: Command, args: Iterable[object] = (), **options: Any) -> Prospects:
        """When and where that job would start, were it submitted now; nothing is queued. Raises as `submit` does."""
        made = asking.prepared("batch", command, args, options)
        self._bring(made)
        return read(Prospects.of, self.call("POST", "/v1/jobs/test", made.body))

    def run(
        self,
        command: Command,
        args: Iterable[object] = (),
        *,
        input: bytes | None = None,
        capture_output: bool = False,
        check: bool = False,
        timeout: Seconds | None = None,
        **options: Any,
    ) -> Completed:
        """Runs a job in the foreground, as `mgpu srun` does: queues it, waits for its GPUs, passes its output on to
        sys.stdout and sys.stderr as it comes, or keeps it (`capture_output`), and returns when it has ended.

        `command`, `args`, `options`: as of `submit`; also ntasks and kill_on_disconnect. `input`: what it reads on its
        stdin. `timeout`: seconds, with the time that it waits for GPUs; then it is cancelled, and TimeoutError raised.
        `check`: JobFailed is raised unless it COMPLETED. Whatever else ends this call before the job has (^C, say)
        cancels the job."""
        how = given(input, capture_output, seconds_of(timeout))
        job, followed = self.begin(command, args, how, options)
        completed = follow_to_the_end(self, followed, job, how)
        if check and not completed.job.succeeded:
            raise JobFailed(completed.job, completed)
        return completed

    def begin(
        self, command: Command, args: Iterable[object], how: How, options: Mapping[str, Any]
    ) -> tuple[Submitted, Followed]:
        """The first half of `run`."""
        told = dict(options)
        request_id, key = told.pop("request_id", None), told.pop("key", None)
        made = asking.prepared("srun", command, args, told, request_id, key)
        if how.input is not None:
            made.body["options"]["input"] = "pipe"
        job = None
        try:
            job = self._send(made)
            return job, self.follow(job.job_id, {}, {}, session=True)
        except BaseException as error:
            if job is not None:
                with suppress(MasterError):
                    self.cancel(job)
            elif not isinstance(error, MasterError):
                take_back(self.location.endpoint, made.body)
            raise

    def _send(self, made: Prepared) -> Submitted:
        self._bring(made)
        try:
            answer = self.call("POST", "/v1/jobs", made.body)
        except MasterError as error:
            raise with_place(error, made.options) from error
        return read(lambda said: _submitted(said, made.notices), answer)

    def _bring(self, made: Prepared) -> None:
        """What goes along has to be there before the job."""
        if made.shipment is not None and "tree" not in made.body:
            from mgpu.client.upload import send_tree

            made.body["tree"] = send_tree(self._way.master(), made.shipment)

    # --- jobs are looked at -----------------------------------------------------------------------------------------

    def queue(self, **filters: Any) -> list[Job]:
        """The jobs that wait or run, in the order of their numbers. Filters: user, me=True, states ("PENDING", or a
        list), name, partition, node. What waits of an array is one entry."""
        return self._list("active", asking.listed(filters))

    def history(self, since: Since | None = None, until: Since | None = None, **filters: Any) -> list[Job]:
        """Jobs that ended, the newest last: 100 of them, with `since` or `until` all, or `limit`. `since`, `until`:
        datetime, timedelta or seconds (so long ago), or text as `mgpu history` takes it. Filters as of `queue`."""
        limit = 100 if since is None and until is None else MOST_OF_HISTORY
        return self._list("ended", {"limit": limit, **asking.listed(filters, since, until)})

    def job(self, job: AnyJob) -> Job:
        """As it is now. Raises MasterError (not_found)."""
        return read(Job.of, self.call("GET", _job_path(job)))

    def why(self, job: AnyJob) -> Prospects:
        """Why it waits, and when and where it is expected to start."""
        return read(Prospects.of, self.call("GET", f"{_job_path(job)}/why"))

    def _list(self, scope: str, wanted: Mapping[str, Any]) -> list[Job]:
        answer = self.call("GET", with_query("/v1/jobs", scope=scope, **wanted))
        return read(lambda said: [Job.of(row) for row in said["jobs"]], answer)

    def wait(self, job: AnyJob, *, timeout: Seconds | None = None, check: bool = False) -> Job:
        """The job once it has ended (an array: all of its tasks). `timeout`: seconds, then TimeoutError; the job goes
        on. `check`: JobFailed is raised unless it COMPLETED."""
        [ended] = self.wait_all([job], timeout=timeout)
        if check and not ended.succeeded:
            raise JobFailed(ended)
        return ended

    def wait_all(self, jobs: Iterable[AnyJob], *, timeout: Seconds | None = None) -> list[Job]:
        """All of them once they have ended, in the order given. `timeout` as of `wait`, for all together."""
        wanted = [number(job) for job in asking.several("jobs", jobs)]
        ended = {job.job_id: job for job in self.as_ended(wanted, timeout=timeout)}
        return [ended[job_id] for job_id in wanted]

    def as_ended(self, jobs: Iterable[AnyJob], *, timeout: Seconds | None = None) -> Iterator[Job]:
        """Each once it has ended, the first to end first. Raises MasterError for one that is not there."""
        waiting, limit = self.waiting(jobs), Limit(seconds_of(timeout))
        while waiting.left:
            yield from ended_of(waiting)
            if waiting.left:
                time.sleep(limit.within(waiting))

    def waiting(self, jobs: Iterable[AnyJob]) -> Waiting:
        """What `as_ended` stands on."""
        return Waiting(self.call, map(number, asking.several("jobs", jobs)), self._way.patience_s)

    # --- what jobs print --------------------------------------------------------------------------------------------

    def stream(
        self,
        job: AnyJob,
        *,
        rank: int | None = None,
        attempt: int | None = None,
        tail: int | None = None,
        since: Since | None = None,
    ) -> Iterator[Output]:
        """The output of a job as it comes, from its beginning to the job's end: (kind, rank, bytes), where kind is
        "stdout" or "stderr"; each byte once, also if the master goes and comes back meanwhile.

        `rank`: of that alone; `attempt`: begin with it (default: the one that runs, or ran last); `tail`: begin so many
        lines before the end of what is there; `since`: with what came since then."""
        followed = self.follow(number(job), {"rank": rank, "attempt": attempt}, beginning_at(tail, since))
        with closing(followed.items()) as items:
            yield from (item for item in items if isinstance(item, Output))

    def lines(
        self, job: AnyJob, *, rank: int | None = None, tail: int | None = None, since: Since | None = None
    ) -> Iterator[Line]:
        """As `stream`, line by line: (kind, rank, text)."""
        followed = self.follow(number(job), {"rank": rank}, beginning_at(tail, since))
        cut = Lines()
        with closing(followed.items()) as items:
            for item in items:
                yield from cut.of(item)
        yield from cut.rest()

    def logs(
        self,
        job: AnyJob,
        kind: Kind = "stdout",
        rank: int = 0,
        *,
        attempt: int | None = None,
        tail: int | None = None,
        since: Since | None = None,
    ) -> bytes:
        """What a rank of a job wrote, as far as it is there now: its node is asked first, and of one that has ended all
        is waited for, as long as its node gives it."""
        place = {"stream": kind, "rank": rank, "attempt": attempt}
        return b"".join(Pieces(self._way.master(), number(job), place, beginning_at(tail, since), fresh=True))

    def follow(
        self, job_id: JobId, place: dict[str, int | None], beginning: dict[str, int | str | None], session: bool = False
    ) -> Followed:
        """What `stream`, `lines` and `run` stand on."""
        master = self._way.master_of_a_thread()
        master.reach()
        return Followed(master, job_id, place, beginning, patience_s=self._way.patience_s, session=session)

    # --- jobs are changed -------------------------------------------------------------------------------------------
    # Jobs by number, or all that pass the filters user, me, states, name, partition. Each returns the numbers of those
    # that were changed, and raises MasterError for one that could not be; of several Refused, which holds both.

    def cancel(self, *jobs: AnyJob, **filters: Any) -> list[JobId]:
        """Ends jobs, waiting or running: their processes get SIGTERM, later SIGKILL. Returns when that is stored;
        `wait` tells when they are gone."""
        return self._change("cancel", "cancelled", jobs, filters)

    def hold(self, *jobs: AnyJob, **filters: Any) -> list[JobId]:
        """Those that wait are not started until `release`."""
        return self._change("hold", "held", jobs, filters)

    def release(self, *jobs: AnyJob, **filters: Any) -> list[JobId]:
        """Those that were held may start."""
        return self._change("release", "released", jobs, filters)

    def requeue(self, *jobs: AnyJob, hold: bool = False, **filters: Any) -> list[JobId]:
        """Those that ended wait again, as a new attempt; those that run are ended first. `hold`: and are held. By
        filters alone, `states` has to be one of them."""
        return self._change("requeue", "requeued", jobs, filters, hold=hold or None)

    def signal(
        self, signal: int | str, *jobs: AnyJob, batch: bool = False, full: bool = False, **filters: Any
    ) -> list[JobId]:
        """Sends a signal ("USR1", or signal.SIGUSR1) to the processes of running jobs; returns when the nodes have done
        it. `batch`: to the first process alone; `full`: to that too, where others are meant otherwise."""
        name = str(int(signal)) if isinstance(signal, int) else signal
        return self._change("signal", "signalled", jobs, filters, signal=name, batch=batch or None, full=full or None)

    def update(self, job: AnyJob, **options: Any) -> list[str]:
        """Changes a job that waits or runs: time (as of `submit`), partition, nodelist, exclude, priority, nice,
        job_name, begin, dependency. All of it or nothing; returns what was changed, in words."""
        told, _ = keywords.given(options, "batch")
        answer = self.call("POST", f"{_job_path(job)}/update", asking.wish(**told))
        return read(lambda said: [str(change) for change in said["changes"]], answer)

    def _change(
        self, verb: str, name: str, jobs: Sequence[AnyJob], filters: Mapping[str, Any], **more: Any
    ) -> list[JobId]:
        answer = self.call("POST", f"/v1/{verb}", asking.wish(**asking.chosen(jobs, filters), **more))
        return read(lambda said: asking.done(said, name), answer)

    # --- nodes and the master ---------------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """Every node of the inventory with its GPUs, as they were seen last (seconds ago)."""
        return read(lambda said: [Node.of(node) for node in said["nodes"]], self.call("GET", "/v1/nodes"))

    def node(self, name: str, *, probe: bool = False) -> Node:
        """One of them. `probe`: after it was looked at anew, which takes a second or so."""
        path = f"/v1/nodes/{quote(name)}"
        return read(Node.of, self.call("POST", f"{path}/probe") if probe else self.call("GET", path))

    def status(self) -> Status:
        """How the master is."""
        return read(Status.of, self.call("GET", "/v1/status"))


def _submitted(answer: Mapping[str, Any], notices: Sequence[str] = ()) -> Submitted:
    told = (*notices, *(answer.get("notices") or ()))
    return Submitted(int(answer["job_id"]), bool(answer.get("created", True)), told)


def _job_path(job: AnyJob) -> str:
    return f"/v1/jobs/{quote(str(number(job)))}"


def _path(given: str | os.PathLike[str] | None) -> str | None:
    return None if given is None else os.fspath(given)


def _patience(value: Seconds | None) -> float | None:
    return patience(os.environ) if value is None else seconds_of(value)
