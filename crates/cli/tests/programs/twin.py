"""Random operations on files of a mount (M, over the real files in S) and of a folder beside it (N): bytes, counts and
errors are equal at every step. `past` is the part of the operations that go by S, past the mount."""

import errno, fcntl, mmap, os, random, stat, sys, time

seed, steps, past = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
S, M, N = sys.argv[4:7]
R = random.Random(seed)
TIME = 1_500_000_000_000_000_001
NAMES = ["a", "b", "c", "d/a", "d/b", "d/e", "e", "d", "d/f/g", "d/f", "l"]
for tree in (S, N):
    os.makedirs(os.path.join(tree, "d/f"))
files, maps, done, step = [], [], 0, 0


class Open:
    """One file, open in the mount (or past it) and beside."""

    def __init__(self, mounted, native, flags, by_source):
        self.both, self.flags, self.by_source = (mounted, native), flags, by_source

    def regular(self):
        return stat.S_ISREG(os.fstat(self.both[1]).st_mode)

    def close(self):
        [os.close(fd) for fd in self.both]


class Map:
    def __init__(self, file, shared, writes, size):
        how = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writes else 0)
        self.both = [mmap.mmap(fd, size, how, access) for fd in file.both]
        self.files = [os.dup(fd) for fd in file.both]
        self.shared, self.writes, self.size = shared, writes, size

    def close(self):
        [one.close() for one in self.both]
        [os.close(fd) for fd in self.files]


def outcome(call, *words):
    try:
        return call(*words)
    except OSError as error:
        return f"errno {errno.errorcode[error.errno]}"


def equal(what, mounted, native):
    global done
    if mounted != native:
        if isinstance(mounted, bytes) and isinstance(native, bytes):
            at = next((i for i, (m, n) in enumerate(zip(mounted, native)) if m != n), "the end")
            what += f", from byte {at} on; {len(mounted)} and {len(native)} bytes"
        sys.exit(f"seed {seed}, step {step}, {what}: mounted {str(mounted)[:99]}, native {str(native)[:99]}")
    done += not isinstance(native, str)


def on_files(what, file, call):
    equal(f"{what} {file.flags:#o}", *[outcome(call, fd) for fd in file.both])


def on_names(what, tree, call, *names):
    equal(f"{what} {names}", *[outcome(call, *[os.path.join(root, name) for name in names]) for root in (tree, N)])


def status(of, follow=False):
    found = os.fstat(of) if isinstance(of, int) else os.stat(of, follow_symlinks=follow)
    size = found.st_size if not stat.S_ISDIR(found.st_mode) else 0
    return found.st_mode, size, found.st_nlink if not stat.S_ISDIR(found.st_mode) else 0, found.st_uid, found.st_gid


def bytes_of(count):
    part = f"{step}.".encode() + bytes([R.randrange(256)])
    return (part * (count // len(part) + 1))[:count]


def write_back():
    [one.both[0].flush() for one in maps if one.shared and one.writes]


def settle():
    """What was changed past the mount is in mappings after a moment, and its size after the next look at it."""
    time.sleep(0.02)
    [os.fstat(fd) for fd in [file.both[0] for file in files] + [one.files[0] for one in maps]]


def read_all(path):
    with open(path, "rb") as file:
        return file.read()


def names_in(tree):
    found = [os.path.join(at, name) for at, folders, some in os.walk(tree) for name in folders + some]
    return sorted(os.path.relpath(path, tree) for path in found)


def open_one(tree, name, by_source):
    flags = R.choice([os.O_RDONLY] * 3 + [os.O_WRONLY] + [os.O_RDWR] * 3)
    flags |= R.choice([0, 0, os.O_CREAT, os.O_CREAT, os.O_CREAT | os.O_EXCL]) | R.choice([0, 0, os.O_APPEND])
    flags |= R.choice([0, 0, 0, os.O_SYNC]) | (R.choice([0, 0, 0, os.O_TRUNC]) if flags & os.O_ACCMODE else 0)
    both = [outcome(os.open, os.path.join(root, name), flags, 0o644) for root in (tree, N)]
    equal(f"open {name} {flags:#o}", *[one if isinstance(one, str) else 0 for one in both])
    if not isinstance(both[0], str):
        files.append(Open(*both, flags, by_source))


def use_file(operation, file):
    offset = R.choice([0, R.randrange(300_000), R.randrange(20_000), R.randrange(70) * 4096])
    count = R.choice([1, 100, 4096, 8192, R.randrange(50_000), R.randrange(200_000)])
    data = bytes_of(count)
    if file.by_source:
        write_back()
    {
        "pread": lambda: on_files("pread", file, lambda fd: os.pread(fd, count, offset)),
        "read": lambda: on_files("read", file, lambda fd: os.read(fd, count)),
        "pwrite": lambda: on_files("pwrite", file, lambda fd: os.pwrite(fd, data, offset)),
        "write": lambda: on_files("write", file, lambda fd: os.write(fd, data)),
        "ftruncate": lambda: on_files("ftruncate", file, lambda fd: os.ftruncate(fd, offset)),
        "fstat": lambda: on_files("fstat", file, status),
        "seek": lambda: file.regular() and on_files("seek", file, lambda fd: os.lseek(fd, offset, offset % 2 * 2)),
        "fsync": lambda: on_files("fsync", file, os.fsync),
        "append": lambda: on_files(
            "fcntl", file, lambda fd: fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) ^ os.O_APPEND)
        ),
        "lock": lambda: on_files("lock", file, lambda fd: fcntl.lockf(fd, fcntl.LOCK_UN)),
    }[operation]()
    if file.by_source and operation in ("pwrite", "write", "ftruncate"):
        settle()


def use_map(operation, one):
    size = min(one.size, os.fstat(one.files[1]).st_size)
    if size == 0:
        return
    start = R.randrange(size)
    end = min(size, start + R.choice([1, 4096, 50_000]))
    if operation == "look":
        equal(f"mapped, shared {one.shared}", *[side[start:end] for side in one.both])
    elif one.writes:
        data = bytes_of(end - start)
        for side in one.both:
            side[start:end] = data


def map_one(file):
    size = os.fstat(file.both[1]).st_size
    shared, writes = R.random() < 0.6, R.random() < 0.5
    refused = file.flags & os.O_ACCMODE == os.O_WRONLY or (
        shared and writes and file.flags & os.O_ACCMODE != os.O_RDWR
    )
    if size and not refused and not file.by_source and file.regular():
        maps.append(Map(file, shared, writes, size))


NAMED = {
    "truncate": lambda path: os.truncate(path, step % 3 * 50_000),
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "mkdir": lambda path: os.mkdir(path, 0o755),
    "symlink": lambda path: os.symlink("d/a", path),
    "stat": status,
    "stat of the target": lambda path: status(path, True),
    "chmod": lambda path: os.chmod(path, 0o640),
    "utime": lambda path: (os.utime(path, ns=(TIME, -TIME)), 0 if maps else os.stat(path).st_mtime_ns)[1],
    "getxattr": lambda path: os.getxattr(path, "user.a"),
    "setxattr": lambda path: os.setxattr(path, "user.a", b"value"),
    "list": lambda path: str(sorted(os.listdir(path))),
    "readlink": os.readlink,
    "whole": read_all,
}
OPERATIONS = ["open"] * 14 + ["close"] * 6 + ["pread"] * 16 + ["pwrite"] * 14 + ["read", "write"] * 7
OPERATIONS += ["ftruncate", "fstat", "seek", "msync", "unmap"] * 4 + ["map"] * 12 + ["look"] * 12 + ["change"] * 12
OPERATIONS += ["list", "fsync", "append", "append", "lock", "copy"] + ["whole"] * 6
OPERATIONS += ["truncate", "stat"] * 3 + ["rename"] * 2
OPERATIONS += ["link", "unlink", "unlink", "mkdir", "rmdir", "symlink", "chmod", "utime", "getxattr", "setxattr"]

for step in range(steps):
    operation = R.choice(OPERATIONS)
    by_source = R.random() < past
    tree, name, other = S if by_source else M, R.choice(NAMES), R.choice(NAMES)
    if by_source:
        write_back()
    if operation == "open":
        if len(files) < 30:
            open_one(tree, name, by_source)
            settle() if by_source else None
    elif operation == "close" and files:
        files.pop(R.randrange(len(files))).close()
    elif operation in ("rename", "link"):
        # The kernel refuses (ESTALE) a rename that meets a folder where it was moved past the mount.
        if not (by_source and os.path.isdir(os.path.join(N, name))):
            on_names(operation, tree, getattr(os, operation), name, other)
    elif operation in NAMED:
        on_names(operation, tree, NAMED[operation], name)
        settle() if by_source and operation == "truncate" else None
    elif operation == "map" and files and len(maps) < 10:
        map_one(R.choice(files))
    elif operation in ("look", "change") and maps:
        use_map(operation, R.choice(maps))
    elif operation == "msync" and maps:
        [side.flush() for side in R.choice(maps).both]
    elif operation == "unmap" and maps:
        maps.pop(R.randrange(len(maps))).close()
    elif operation == "copy" and len(files) > 1:
        one, two = R.sample(files, 2)
        apart = not os.path.sameopenfile(one.both[1], two.both[1])
        if apart and not (one.by_source or two.by_source or two.flags & os.O_APPEND):
            pairs = zip(one.both, two.both)
            equal("sendfile", *[outcome(os.sendfile, into, out, 100, 30_000) for out, into in pairs])
    elif operation in ("pread", "read", "pwrite", "write", "ftruncate", "fstat", "seek", "fsync", "append", "lock"):
        if files:
            use_file(operation, R.choice(files))

write_back()
for name in names_in(N):
    for tree in (M, S):
        on_names("at the end, stat", tree, status, name)
        if os.path.isfile(os.path.join(N, name)):
            on_names("at the end, content", tree, read_all, name)
for tree in (M, S):
    equal("names at the end", names_in(tree), names_in(N))
print(done)
