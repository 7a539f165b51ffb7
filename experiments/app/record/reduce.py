"""Reduces a recording of record.c: reduce.py RECORDING SUMMARY TRACE [SKIP].

SUMMARY gets one line a job: pages touched, written, of files, shared with the job before, new. TRACE gets the pages
that every job touched (the core) in the order in which the median job touched them, ` w` behind those that it wrote,
numbered by address among the core: what `pattern = "trace"` reads. The last line of SUMMARY is what the models are
fitted to.
"""
import statistics
import sys

recording, summary, trace = sys.argv[1:4]
skip = int(sys.argv[4]) if len(sys.argv) > 4 else 1
jobs, notes = [], []
for line in open(recording):
    words = line.split()
    if words[0] == "#":
        notes.append(line)
    elif words[0] == "job":
        jobs.append([])
    else:
        jobs[-1].append((int(words[0]), words[1], words[2]))
jobs = jobs[skip:]

sets = [{page for page, _, _ in job} for job in jobs]
core = set.intersection(*sets)
everything, before, rows = set(), set(), []
for job, pages in zip(jobs, sets):
    written = {page for page, access, _ in job if access == "w"}
    file = {page for page, _, kind in job if kind == "f"}
    rows.append((len(pages), len(written), len(file), len(pages & before), len(pages - everything)))
    everything |= pages
    before = pages

with open(summary, "w") as out:
    out.writelines(notes)
    out.write("# job touched written of-files also-in-the-last-job new\n")
    for number, row in enumerate(rows):
        out.write(" ".join(map(str, (number, *row))) + "\n")
    medians = [int(statistics.median(column)) for column in zip(*rows[1:])]
    out.write(f"# medians {' '.join(map(str, medians))}; pages in all {len(everything)}; in every job {len(core)}\n")

median = sorted(range(len(jobs)), key=lambda job: rows[job][0])[len(jobs) // 2]
number = {page: at for at, page in enumerate(sorted(core))}
written = {page for page, access, _ in jobs[median] if access == "w"}
order = list(dict.fromkeys(page for page, _, _ in jobs[median] if page in core))
steps = list(zip(order, order[1:]))
follows = sum(1 for one, next in steps if next == one + 1)
with open(trace, "w") as out:
    out.write(f"# pages that every recorded job touches, in order; {follows} of {len(steps)} follow their forerunner\n")
    for page in order:
        out.write(f"{number[page]}{' w' if page in written else ''}\n")
