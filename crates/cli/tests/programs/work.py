"""Dictionaries, threads, children, memory maps in a row and at once, temporary files."""
import hashlib, json, mmap, multiprocessing, os, subprocess, sys, tempfile, threading
table = {i: str(i * i) * 3 for i in range(100_000)}
print(hashlib.sha256(json.dumps(table).encode()).hexdigest())
sums = [0] * 4
def work(n):
    sums[n] = sum(len(v) for k, v in table.items() if k % 4 == n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]; print(sums)
pid = os.fork()
if pid == 0: os._exit(sum(len(v) for v in table.values()) % 251)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
for size in range(1, 401):
    with mmap.mmap(-1, size * 4096, flags=private) as m:
        m[0] = size % 251; assert m[0] == size % 251 and m[size * 4096 - 1] == 0
print(sorted(os.sched_getaffinity(0)))
print(subprocess.run(["sort", "-r"], input=b"a\nc\nb\n", capture_output=True).stdout)
with tempfile.TemporaryFile() as f:
    f.truncate(1 << 22)
    with mmap.mmap(f.fileno(), 0) as m:
        m[4096 * 7:4096 * 7 + 5] = b"hello"; print(m.find(b"hello"))
anonymous = mmap.mmap(-1, 32 << 20)
for page in range(0, 32 << 20, 4096 * 3):
    anonymous[page] = page % 251
print(sum(anonymous[page] for page in range(0, 32 << 20, 4096 * 3)))
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(abs, range(-5, 5)))
sys.exit(7)
