"""Clusters by address, as executors: what `executor=` and `--engine` take.

    ray              a Ray of this machine, started for this run
    ray://auto       the Ray cluster this machine belongs to
    ray://HOST:PORT  a Ray cluster through its client port
    dask             a Dask of this machine, started for this run
    dask://HOST:PORT a Dask scheduler

Every block of trials has its seed, so the numbers are those of this machine's own processes.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from typing import Any

from privquant.errors import InvalidInput, MissingDependency, PrivquantError

FORMS = "ray, ray://auto, ray://HOST:PORT, dask, dask://HOST:PORT"

# A task whose worker dies so often will not get better.
RETRIES = 5
# Objects kept in Ray's store: the cells of a sweep come in order, so few are in use at a time.
_KEPT = 128


@contextmanager
def executor_at(address: str, *, workers: int = 0) -> Iterator[Executor]:
    """The executor at an address, for `lab.sweep`, `lab.trials` and studies; what was started for it ends with it.

    workers: of a cluster started here: how many processes; 0 means all cores.
    """
    kind, _, place = address.partition("://")
    if kind not in ("ray", "dask") or ("://" in address and not place):
        raise InvalidInput(f"an engine is one of {FORMS}, got {address!r}")
    if kind == "dask":
        with _dask(place, workers) as executor:
            yield executor
        return
    with connected(place, workers), RayExecutor() as executor:
        yield executor


@contextmanager
def _dask(place: str, workers: int) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise MissingDependency("a Dask engine", "distributed", "dask") from None
    options: dict[str, Any] = {"n_workers": workers or None, "threads_per_worker": 1, "dashboard_address": None}
    try:
        client = Client(f"tcp://{place}", timeout=10) if place else Client(**options)
    except OSError as error:
        raise PrivquantError(f"no Dask scheduler answers at {place}: {error}") from error
    with client:
        yield client.get_executor()


def ray_module() -> Any:
    """Ray, or the error that says how to get it."""
    try:
        import ray
    except ImportError:
        raise MissingDependency("a Ray engine", "ray", "ray") from None
    return ray


@contextmanager
def connected(place: str, workers: int = 0) -> Iterator[None]:
    """Connected to the cluster at `place`: "auto", HOST:PORT of its client server, or "" for one of our own.

    A connection that is there already is used and left open.
    """
    ray = ray_module()
    if ray.is_initialized():
        yield
        return
    try:
        if place:
            ray.init("auto" if place == "auto" else f"ray://{place}", log_to_driver=False, logging_level="error")
        else:
            ray.init(num_cpus=workers or None, include_dashboard=False, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise PrivquantError(f"no Ray cluster at {place or 'this machine'}: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


class RayExecutor(Executor):
    """Ray as an executor: a task a call on the cluster Ray is connected to, run again where its worker was killed.

    An argument that is the same object in many calls (a cell with its data) is put into Ray's store once.
    """

    def __init__(self) -> None:
        self._ray = ray_module()
        self._stored: dict[int, tuple[Any, Any]] = {}
        self._waiting: set[Any] = set()
        self._call = self._ray.remote(max_retries=RETRIES)(_call)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        ref = self._call.remote(fn, *(self._shared(arg) for arg in args), **kwargs)
        self._waiting.add(ref)
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def settle(found: Future[Any]) -> None:
            self._waiting.discard(ref)
            error = found.exception()
            if error is None:
                future.set_result(found.result())
            else:
                future.set_exception(self._cause(error))

        ref.future().add_done_callback(settle)
        return future

    def _shared(self, arg: Any) -> Any:
        """A reference to an argument worth sharing: an object that is neither a number nor freshly made."""
        if isinstance(arg, int | float | str | bytes | bool | None) or not hasattr(arg, "__dict__"):
            return arg
        key = id(arg)
        if key not in self._stored:
            if len(self._stored) >= _KEPT:
                del self._stored[next(iter(self._stored))]
            self._stored[key] = (arg, self._ray.put(arg))  # the object too, so that its id stays its own
        return self._stored[key][1]

    def _cause(self, error: BaseException) -> BaseException:
        """The task's own error; a lost worker as an executor that broke."""
        if isinstance(error, self._ray.exceptions.RayTaskError):
            return error.cause if isinstance(error.cause, BaseException) else error
        if isinstance(error, self._ray.exceptions.RayError):
            return BrokenExecutor(f"a Ray worker was lost {RETRIES + 1} times: {error}")
        return error

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for ref in list(self._waiting):
                self._ray.cancel(ref, force=False)
        if wait and self._waiting:
            self._ray.wait(list(self._waiting), num_returns=len(self._waiting))
        self._stored.clear()


def _call(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)
