//! Programs with preloaded libraries that make memory and start threads before the program begins are managed all the
//! same, or refused before they do anything; never unmanaged without a word. The agent's words arrive whatever standard
//! error is.

mod common;

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{freehold, own_stderr, stderr, stdout};

const SIZES: [&str; 3] = ["64MiB", "8MiB", "4MiB"];

/// A library that has functions of the C library's names, makes memory and starts a thread when it is loaded.
const EARLY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *(*next)(void *, size_t, int, int, int, off_t);
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (!next) next = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
    return next(at, size, protection, flags, fd, offset);
}
void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    return mmap(at, size, protection, flags, fd, offset);
}
void *mremap(void *at, size_t before, size_t size, int flags, ...) { return MAP_FAILED; }
static void *works(void *none) { for (;;) pause(); return none; }
/* As where an emulator is the process: it has the agent's code for itself, beside that of its program. */
static int map_agent(struct dl_phdr_info *object, size_t size, void *none) {
    if (!strstr(object->dlpi_name, "libfreehold_agent.so")) return 0;
    return mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(object->dlpi_name, O_RDONLY), 0) == none;
}
__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
#ifdef EMULATOR
    dl_iterate_phdr(map_agent, MAP_FAILED);
#endif
    free(memset(malloc(1 << 20), 1, 1 << 20));
    pthread_create(&thread, 0, works, 0);
}
"#;

/// Whether there is an agent: text of the program lies in memory that a userfaultfd watches (`ui`); and whether its
/// memory is right.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    static char line[4096];
    int managed = 0;
    size_t wrong = 0, size = 6 << 20;
    char *block = malloc(size);
    memset(block, 1, size);
    for (size_t at = 0; at < size; at += 4096) wrong += block[at] != 1;
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (fgets(line, sizeof line, maps)) managed |= strstr(line, "VmFlags:") == line && strstr(line, " ui");
    printf("managed %d, wrong %zu\n", managed, wrong);
    fprintf(stderr, "the program's own words\n");
    return 0;
}
"#;

/// A library that waits, while it is loaded, for a thread that calls what the agent has functions for.
const WAITS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void *works(void *none) {
    struct stat found;
    struct statx more;
    pthread_mutex_t mutex;
    pthread_mutexattr_t robust;
    int left, status = 1, done = 0;
    char *block = memset(malloc(8 << 20), 1, 8 << 20);
    done += !stat("/", &found) + !lstat("/", &found) + !fstat(0, &found) + !fstatat(AT_FDCWD, "/", &found, 0);
    done += !statx(AT_FDCWD, "/", 0, STATX_INO, &more) + (open("/dev/null", O_RDONLY) > 0);
    done += (openat(AT_FDCWD, "/dev/null", O_RDONLY) > 0) + (fopen("/dev/null", "r") != 0);
    done += (syscall(SYS_getpid) == getpid()) + (ioctl(open("/", O_RDONLY), FIONREAD, &left) != 7);
    done += !prctl(PR_SET_NAME, "waits") + !mprotect((char *)((size_t)block & -4096), 1, PROT_READ | PROT_WRITE);
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    done += !pthread_mutex_init(&mutex, &robust);
    pid_t child = fork();
    if (!child) _exit(block[5 << 20] != 1);
    done += waitpid(child, &status, 0) == child && status == 0;
    printf("%d calls\n", done);
    return none;
}
__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    pthread_create(&thread, 0, works, 0);
    pthread_join(thread, 0);
}
"#;

/// Loads the library that it is told to.
const LOADS: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
    puts(dlerror() ? "somebody else's error" : "no error");
    return count != 2 || !dlopen(words[1], RTLD_NOW);
}
"#;

/// A folder with the program and the libraries.
struct Bench(PathBuf);

impl Bench {
    fn new(name: &str) -> Option<Self> {
        let probe = freehold(&["exec", "--reserve", "16MiB", "--", "true"])
            .output()
            .expect("it starts");
        if !probe.status.success() {
            println!("not tested: {}", stderr(&probe));
            return None;
        }
        let bench = Self(std::env::temp_dir().join(format!("freehold-preloads-{name}-{}", std::process::id())));
        std::fs::create_dir_all(&bench.0).expect("a folder");
        std::fs::write(bench.0.join("early.c"), EARLY).expect("a file");
        std::fs::write(bench.0.join("program.c"), PROGRAM).expect("a file");
        let library = ["-shared", "-fPIC", "-pthread"];
        let built = bench.compile("program", "program.c", &[])
            && bench.compile("early.so", "early.c", &library)
            && bench.compile("first.so", "early.c", &[&library[..], &["-Wl,-z,initfirst"]].concat())
            && bench.compile(
                "emulator.so",
                "early.c",
                &[&library[..], &["-Wl,-z,initfirst", "-DEMULATOR"]].concat(),
            );
        built.then_some(bench)
    }

    fn compile(&self, to: &str, from: &str, options: &[&str]) -> bool {
        let mut compiler = Command::new("cc");
        compiler.args(options).args(["-o", to, from]).current_dir(&self.0);
        match compiler.status() {
            Ok(status) => status.success(),
            Err(error) => {
                println!("not tested: no C compiler ({error})");
                false
            }
        }
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn exec(&self, options: &[&str], preload: &str, words: &[&str]) -> Command {
        let mut command = freehold(&["exec"]);
        command.args(options).arg("--").args(words);
        if !preload.is_empty() {
            command.env("LD_PRELOAD", preload);
        }
        command
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn expect_managed(output: &Output, what: &str) {
    let said = (output.status.code(), stdout(output), own_stderr(output));
    let right = (
        Some(0),
        "managed 1, wrong 0\n".to_owned(),
        "the program's own words\n".to_owned(),
    );
    assert_eq!(said, right, "{what}");
}

#[test]
fn programs_with_early_libraries_are_managed() {
    let Some(bench) = Bench::new("early") else { return };
    let program = bench.path("program");
    let mut libraries = vec![bench.path("early.so")];
    for name in ["libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libjemalloc.so.2"] {
        let path = format!("/usr/lib/x86_64-linux-gnu/{name}");
        if Path::new(&path).exists() {
            libraries.push(path);
        } else {
            println!("not tested: {name} is not here");
        }
    }
    for library in &libraries {
        for size in SIZES {
            let output = bench.exec(&["--reserve", size], library, &[&program]).output();
            expect_managed(&output.expect("it starts"), library);
        }
    }
}

#[test]
fn wrappers_that_change_the_environment_lose_nothing() {
    let Some(bench) = Bench::new("wrappers") else { return };
    let (program, library) = (bench.path("program"), bench.path("early.so"));
    let preload = format!("LD_PRELOAD={library}");
    for words in [
        vec!["env", &preload, &program],
        vec!["env", "-u", "LD_PRELOAD", &program],
        vec!["env", "-i", &program],
        vec!["env", "-i", &preload, &program],
        vec!["sh", "-c", "unset LD_PRELOAD FREEHOLD_SOCKET; exec \"$0\"", &program],
        vec!["sh", "-c", "LD_PRELOAD=$1 \"$0\"", &program, &library],
    ] {
        let output = bench.exec(&["--reserve", "16MiB"], "", &words).output();
        expect_managed(&output.expect("it starts"), &format!("{words:?}"));
    }
}

#[test]
fn what_cannot_be_managed_is_refused_before_it_runs() {
    let Some(bench) = Bench::new("refused") else { return };
    // Of two libraries that want to be the first, the linker takes the last.
    let (program, library) = (bench.path("program"), bench.path("first.so"));
    let refused = bench.exec(&["--reserve", "16MiB"], &library, &[&program]).output();
    let refused = refused.expect("it starts");
    assert_eq!((refused.status.code(), stdout(&refused)), (Some(125), String::new()));
    assert!(
        stderr(&refused).contains("cannot be managed, and does not run"),
        "{}",
        stderr(&refused)
    );
    let goes_on = bench
        .exec(&["--reserve", "16MiB", "--keep-going"], &library, &[&program])
        .output();
    let goes_on = goes_on.expect("it starts");
    assert_eq!(
        (goes_on.status.code(), stdout(&goes_on)),
        (Some(0), "managed 0, wrong 0\n".to_owned())
    );
    assert!(stderr(&goes_on).contains("runs unmanaged"), "{}", stderr(&goes_on));
}

#[test]
fn the_program_of_an_emulator_that_is_managed_is_left_alone() {
    let Some(bench) = Bench::new("emulated") else { return };
    let (program, library) = (bench.path("program"), bench.path("emulator.so"));
    let run = |preload: &str, words: &[&str]| {
        let output = bench.exec(&["--reserve", "64MiB"], preload, words).output();
        let output = output.expect("it starts");
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let own_words = "the program's own words\n";
    let expected = |managed: u32| (Some(0), format!("managed {managed}, wrong 0\n"), own_words.to_owned());
    assert_eq!(run(&library, &[&program]), expected(0));
    // A real one, which is managed, and shows its program mappings of its own making.
    if Command::new("qemu-x86_64").arg("--version").output().is_err() {
        println!("not tested: there is no qemu-x86_64");
        return;
    }
    assert_eq!(run("", &["qemu-x86_64", &program]), expected(1));
}

#[test]
fn the_agent_s_words_arrive_whatever_standard_error_is() {
    let Some(bench) = Bench::new("words") else { return };
    let (program, library) = (bench.path("program"), bench.path("first.so"));
    let run = |to: Stdio| {
        let mut command = bench.exec(&["--reserve", "16MiB", "--keep-going"], &library, &[&program]);
        let status = command.stdout(Stdio::null()).stderr(to).status();
        assert_eq!(status.expect("it starts").code(), Some(0));
    };
    let (mut own, other) = UnixStream::pair().expect("a socket");
    run(Stdio::from(OwnedFd::from(other)));
    let mut heard = String::new();
    own.read_to_string(&mut heard).expect("text");
    let path = bench.path("words");
    std::fs::write(&path, "what was there\n").expect("a file");
    let file = std::fs::OpenOptions::new().append(true).open(&path).expect("a file");
    run(Stdio::from(file));
    let appended = std::fs::read_to_string(&path).expect("text");
    let file = std::fs::File::create(&path).expect("a file");
    run(Stdio::from(file));
    let written = std::fs::read_to_string(&path).expect("text");
    for (text, before) in [(&heard, ""), (&appended, "what was there\n"), (&written, "")] {
        let lines: Vec<&str> = text.strip_prefix(before).expect("the beginning").lines().collect();
        let [said, own] = lines[..] else {
            panic!("two lines: {text}")
        };
        assert!(
            said.starts_with("freehold: ") && said.contains("runs unmanaged"),
            "{text}"
        );
        assert_eq!(own, "the program's own words", "{text}");
    }
}

/// Whoever loads a library has a lock of the dynamic linker meanwhile.
#[test]
fn a_library_may_wait_for_a_thread_while_it_is_loaded() {
    let Some(bench) = Bench::new("waits") else { return };
    for (name, text) in [("waits.c", WAITS), ("loads.c", LOADS)] {
        std::fs::write(bench.0.join(name), text).expect("a file");
    }
    let built = bench.compile("waits.so", "waits.c", &["-shared", "-fPIC", "-pthread"])
        && bench.compile("loads", "loads.c", &["-pthread"]);
    assert!(built, "they compile");
    let words = [&bench.path("loads"), &bench.path("waits.so")];
    for size in SIZES {
        let limited = ["timeout", "60", words[0], words[1]];
        let output = bench.exec(&["--reserve", size], "", &limited).output();
        let output = output.expect("it starts");
        let said = (output.status.code(), stdout(&output));
        assert_eq!(said, (Some(0), "no error\n14 calls\n".to_owned()), "{size}");
    }
}

#[test]
fn libraries_that_start_threads_when_they_are_loaded() {
    let Some(bench) = Bench::new("installed") else { return };
    let numbers = "import numpy; a = numpy.ones((300, 300)); print(float((a @ a).sum()), \
                   any(' ui' in line for line in open('/proc/self/smaps') if line.startswith('VmFlags')))";
    for (words, said) in [
        (vec!["/usr/bin/python3", "-c", numbers], "27000000.0 True\n"),
        (vec!["ffmpeg", "-version"], "ffmpeg version"),
    ] {
        let alone = Command::new(words[0]).args(&words[1..]).output();
        if !alone.as_ref().is_ok_and(|output| output.status.success()) {
            println!("not tested: {words:?} does not run here");
            continue;
        }
        let output = bench
            .exec(&["--reserve", "64MiB"], "", &words)
            .output()
            .expect("it starts");
        assert_eq!(
            (output.status.code(), stderr(&output)),
            (Some(0), String::new()),
            "{words:?}"
        );
        assert!(stdout(&output).starts_with(said), "{}", stdout(&output));
    }
}
