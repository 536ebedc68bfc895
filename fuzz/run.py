"""Many small hostile cases: ``python fuzz/run.py --cases 10000 --seed 0``.

Every case is drawn from its number and the seed alone, so that a violation can be had again with
``--only NUMBER``. Cases run in a process of their own, which is replaced when one of them kills or stalls it.
What is done is noted in ``--state`` and not done again.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import multiprocessing
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

FAMILIES = (
    *("fit", "stage", "model file", "data file", "anndata"),
    *("names", "missing", "components", "hostile file"),
)
SHARES = (0.28, 0.26, 0.1, 0.12, 0.06, 0.04, 0.04, 0.03, 0.07)
PATIENCE = 120
"""Seconds after which a case that takes a fraction of one is called a hang: of processor time, so that a busy
machine is no fault, or ten times as many on the clock, for what waits for ever."""
MEMORY = 6 * 2**30


def run_case(seed: int, number: int, only: Sequence[str] = ()) -> tuple[str, str, str]:
    """Family, outcome and detail of one case, of one of the families `only` if there are some."""
    import arrays
    import files
    import hostile
    import numpy as np
    from verdict import judge

    rng = np.random.default_rng([seed, number])
    family = str(rng.choice(only) if only else rng.choice(FAMILIES, p=SHARES))
    cases = {
        "fit": arrays.fit_case,
        "stage": arrays.stage_case,
        "model file": files.model_file_case,
        "data file": files.data_file_case,
        "anndata": files.anndata_case,
        "names": hostile.names_case,
        "missing": hostile.missing_case,
        "components": hostile.components_case,
        "hostile file": hostile.hostile_file_case,
    }
    return family, *judge(lambda: cases[family](rng))


def _work(connection: Any, seed: int, only: Sequence[str]) -> None:
    """Run the cases that come in, one by one."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    while True:
        number = connection.recv()
        if number is None:
            return
        start = time.perf_counter()
        connection.send((*run_case(seed, number, only), time.perf_counter() - start))


def _processor_seconds(process: int) -> float:
    """Processor time of a process so far; where the system does not tell, the time on the clock."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError):
        return time.monotonic()


class Worker:
    """A process that runs cases."""

    def __init__(self, seed: int, only: Sequence[str] = ()) -> None:
        self.seed, self.families = seed, only
        self.process: Any = None

    def run(self, number: int) -> tuple[str, str, str, float]:
        """Family, outcome, detail and seconds of a case, even of one that kills the process."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.connection, theirs = context.Pipe()
            self.process = context.Process(target=_work, args=(theirs, self.seed, self.families), daemon=True)
            self.process.start()
            theirs.close()
        self.connection.send(number)
        try:
            start, used = time.monotonic(), _processor_seconds(self.process.pid)
            while not self.connection.poll(5):
                waited = time.monotonic() - start
                if waited > 10 * PATIENCE or _processor_seconds(self.process.pid) - used > PATIENCE:
                    break
            else:
                found: tuple[str, str, str, float] = self.connection.recv()
                return found
            fault = f"hang: no answer in {waited:.0f} s"
        except EOFError:
            self.process.join(5)
            fault = f"crash: the process ended with {self.process.exitcode}"
        self.stop()
        return "?", "violation", fault, float(PATIENCE)

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = None


def main() -> int:
    """Run the cases that are asked for and not done yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="run this case alone, in this process")
    parser.add_argument("--state", type=Path, help="file that remembers what is done; JSON lines")
    parser.add_argument("--again", action="store_true", help="run violations of the state file once more")
    parser.add_argument("--family", action="append", default=[], choices=FAMILIES, help="only such cases")
    args = parser.parse_args()
    if args.only is not None:
        family, outcome, detail = run_case(args.seed, args.only, args.family)
        print(f"case {args.only} (seed {args.seed}), {family}: {outcome}\n{detail}")
        return int(outcome == "violation")
    done: dict[int, dict[str, Any]] = {}
    if args.state and args.state.exists():
        for line in args.state.read_text().splitlines():
            record = json.loads(line)
            if record["seed"] == args.seed:
                done[record["case"]] = record
    wanted = range(args.first, args.first + args.cases)
    todo = [n for n in wanted if n not in done or (args.again and done[n]["outcome"] == "violation")]
    worker, start, last = Worker(args.seed, args.family), time.monotonic(), time.monotonic()
    log = args.state.open("a") if args.state else None
    try:
        for position, number in enumerate(todo):
            family, outcome, detail, seconds = worker.run(number)
            record = {
                "seed": args.seed,
                "case": number,
                "family": family,
                "outcome": outcome,
                "seconds": round(seconds, 3),
            }
            if outcome == "violation":
                record["detail"] = detail
                print(f"VIOLATION in case {number} (seed {args.seed}), {family}: {detail}", flush=True)
            done[number] = record
            if log:
                print(json.dumps(record), file=log, flush=True)
            if time.monotonic() - last > 30:
                last = time.monotonic()
                print(
                    f"{position + 1} of {len(todo)} cases in {last - start:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
    finally:
        worker.stop()
        if log:
            log.close()
    counts = Counter((done[n]["family"], done[n]["outcome"]) for n in wanted)
    violations = sum(count for (_, outcome), count in counts.items() if outcome == "violation")
    for family in sorted({family for family, _ in counts}):
        parts = [f"{counts[family, o]} {o}" for o in ("ok", "refused", "violation")]
        print(f"{family:>12}: {', '.join(parts)}")
    spent = sum(done[n]["seconds"] for n in wanted)
    print(f"{len(wanted)} cases, {violations} violation(s), {spent:.0f} s of cases in all")
    return int(violations > 0)


if __name__ == "__main__":
    sys.exit(main())
