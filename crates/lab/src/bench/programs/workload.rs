//! Ordinary programs and what they are to do: enough to use tens of megabytes, fork, start others and share libraries;
//! the same input always gives the same output.

/// What of a program is compared with its native run, besides its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// All it prints and writes.
    Output,
    /// Nothing: it prints times.
    Status,
}

/// One program and its work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    /// Programs that must be installed.
    pub(super) needs: &'static [&'static str],
    /// For `sh -c`, in an empty folder; `$I` is the folder of inputs, `$T` the seconds of film.
    pub(super) script: &'static str,
    pub(super) compared: Compared,
    /// Left out of the comparison of times: much of it sleeps.
    pub(super) timed: bool,
}

const DEFAULT: Workload = Workload {
    name: "",
    needs: &[],
    script: "",
    compared: Compared::Output,
    timed: true,
};

/// All of them.
pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "sort",
        needs: &["sort"],
        script: "sort --parallel=2 -S 40M -k2 $I/lines > sorted && sort -u -S 4M -T . $I/lines | tail -n 1000",
        ..DEFAULT
    },
    Workload {
        name: "python3",
        needs: &["python3"],
        script: "\"$PYTHON\" $I/work.py",
        ..DEFAULT
    },
    Workload {
        name: "python3 tests",
        needs: &["python3"],
        script: "\"$PYTHON\" -m test -q test_list test_dict test_set test_mmap test_array test_bytes test_fork1 \
                 test_posix > log 2>&1 || { tail -n 40 log >&2; exit 1; }",
        compared: Compared::Status,
        timed: false,
    },
    Workload {
        name: "gcc",
        needs: &["gcc"],
        script: "cp $I/program.c . && gcc -O2 -c program.c -o program.o && gcc -O1 -S program.c -o - | tail -n 500",
        ..DEFAULT
    },
    Workload {
        name: "git",
        needs: &["git"],
        script: "export HOME=$PWD GIT_AUTHOR_DATE='1000000000 +0000' GIT_COMMITTER_DATE='1000000000 +0000' \
                 GIT_CONFIG_NOSYSTEM=1; g='git -c user.name=n -c user.email=e -c gc.auto=0 -c pack.threads=1'; \
                 $g init -q r && cd r && cp $I/program.c $I/lines . && $g add . && $g commit -q -m one && \
                 sed -i 's/1/2/' lines && $g commit -q -a -m two && $g repack -q -a -d && $g fsck --no-progress && \
                 $g log --stat && $g diff HEAD~1 | tail -n 500; s=$?; cd .. && rm -rf r && exit $s",
        ..DEFAULT
    },
    Workload {
        name: "sqlite3",
        needs: &["sqlite3"],
        script: "sqlite3 data.db < $I/work.sql; s=$?; rm -f data.db; exit $s",
        ..DEFAULT
    },
    Workload {
        name: "perl",
        needs: &["perl"],
        script: "perl -e 'my %h; open(my $f, \"<\", \"$ENV{I}/lines\"); while (<$f>) { my @w = split; \
                 $h{$w[1]} .= $w[0]; } \
                 print map { \"$_ $h{$_}\\n\" } (sort keys %h)[0..999];'",
        ..DEFAULT
    },
    Workload {
        name: "xz",
        needs: &["xz"],
        script: "xz -6 -T2 --block-size=1MiB -c $I/lines > lines.xz && xz -dc lines.xz | cmp - $I/lines",
        ..DEFAULT
    },
    Workload {
        name: "tar and gzip",
        needs: &["tar", "gzip"],
        script: "tar -C $I --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - . | \
                 gzip -n > all.tar.gz && \
                 tar -xzf all.tar.gz -O | cksum",
        ..DEFAULT
    },
    Workload {
        name: "ffmpeg",
        needs: &["ffmpeg"],
        script: "ffmpeg -nostdin -loglevel error -f lavfi -i testsrc2=size=640x360:rate=30 -t $T -pix_fmt yuv420p \
                 -c:v mpeg2video -threads 2 -flags +bitexact -fflags +bitexact -f md5 -",
        ..DEFAULT
    },
    Workload {
        name: "mplayer",
        needs: &["mplayer", "ffmpeg"],
        script: "mplayer -really-quiet -nolirc -nosound -benchmark -vo md5sum:outfile=frames $I/clip.mpg </dev/null",
        ..DEFAULT
    },
    Workload {
        name: "threaded server",
        needs: &["python3"],
        script: "\"$PYTHON\" $I/server.py",
        ..DEFAULT
    },
];

/// Python: dictionaries, text, compression, threads, children by fork and by spawn.
pub(super) const PYTHON: &str = r#"
import hashlib, json, os, random, re, subprocess, threading, zlib
random.seed(7)
digest = hashlib.sha256()
table = {f"key{random.randrange(10**9)}": [random.random() for _ in range(8)] for _ in range(60000)}
digest.update(json.dumps(table, sort_keys=True).encode())
text = " ".join(sorted(table)[:40000])
digest.update(str(len(re.findall(r"key(\d*)7 ", text))).encode())
packed = zlib.compress(text.encode() * 8, 6)
digest.update(packed)
assert zlib.decompress(packed) == text.encode() * 8
parts = [None] * 8
def part(number):
    parts[number] = hashlib.sha1(bytes((number + index) % 251 for index in range(200000))).hexdigest()
threads = [threading.Thread(target=part, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
digest.update("".join(parts).encode())
for number in range(6):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        table[f"child{number}"] = [number]
        own = hashlib.sha1(json.dumps(table, sort_keys=True).encode()).hexdigest()
        os.write(write, own.encode())
        os._exit(number)
    os.close(write)
    digest.update(os.read(read, 100))
    os.close(read)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == number
for number in range(4):
    digest.update(subprocess.run(["sh", "-c", f"echo {number}; exit {number}"], capture_output=True).stdout)
blocks = [bytearray(1 << 20) for _ in range(24)]
for index, block in enumerate(blocks):
    block[::4096] = bytes([index]) * 256
digest.update(b"".join(blocks))
print(digest.hexdigest())
"#;

/// A server with a thread for each connection, and clients that ask it at the same time.
pub(super) const SERVER: &str = r#"
import hashlib, socketserver, socket, threading
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            number = int(line)
            data = bytes((number + index) % 256 for index in range(256)) * 512
            self.wfile.write(hashlib.sha256(data).hexdigest().encode() + b"\n")
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64
server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True).start()
answers = [None] * 16
def client(number):
    with socket.create_connection(server.server_address) as connection:
        stream = connection.makefile("rw")
        got = []
        for question in range(60):
            stream.write(f"{number * 1000 + question}\n")
            stream.flush()
            got.append(stream.readline().strip())
        answers[number] = "".join(got)
clients = [threading.Thread(target=client, args=(number,)) for number in range(16)]
[thread.start() for thread in clients]
[thread.join() for thread in clients]
server.shutdown()
print(hashlib.sha256("".join(answers).encode()).hexdigest())
"#;
