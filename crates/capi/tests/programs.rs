//! C programs, compiled against the installed library and run.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use freehold_core::units::FrameCount;
use freehold_scenario::DeviceFile;
use freehold_server::serve::{self, Options};
use freehold_server::{Limits, Quotas, Settings};

/// Makes this program a memory server, at the socket that it names.
const SERVE: &str = "FREEHOLD_TEST_SERVE";

/// What the server serves besides: memory that is its own, not the pool's.
const DEVICES: &str = r#"
[region]
backing = "small"
[[device]]
name = "camera"
size = "8MiB"
[[device]]
name = "decoder"
size = "4MiB"
"#;

/// A directory that is removed in the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("freehold-capi-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, error) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{command:?}: {}\n{out}{error}", output.status);
    out.into_owned()
}

/// Where cargo has put the libraries that these tests belong to.
fn built() -> PathBuf {
    let own = std::env::current_exe().expect("the test's own path");
    let directory = own.parent().expect("a directory");
    assert!(directory.join("libfreehold.so").is_file(), "{}", directory.display());
    directory.to_owned()
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `make install` below `to`; what pkg-config says of it.
fn install(to: &Path) -> Vec<String> {
    let mut make = Command::new("make");
    make.arg("-C").arg(here()).arg("install");
    make.arg(format!("LIBRARIES={}", built().display()));
    make.arg(format!("DESTDIR={}", to.display())).arg("PREFIX=/usr");
    run(&mut make);
    let mut pkg = Command::new("pkg-config");
    pkg.args(["--cflags", "--libs", "freehold"]);
    pkg.env("PKG_CONFIG_PATH", to.join("usr/lib/pkgconfig"));
    // System paths would be left out; below the sysroot they are none.
    pkg.env("PKG_CONFIG_SYSROOT_DIR", to)
        .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1")
        .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1");
    run(&mut pkg).split_whitespace().map(str::to_owned).collect()
}

fn compile(source: &Path, to: &Path, flags: &[String]) {
    let strict = [
        "-std=c99",
        "-D_POSIX_C_SOURCE=200809L",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-O1",
    ];
    run(Command::new("cc")
        .args(strict)
        .arg(source)
        .arg("-o")
        .arg(to)
        .args(flags));
}

#[test]
fn wrong_arguments_are_refused_also_by_the_static_library() {
    let directory = Directory::new("arguments");
    let flags = install(&directory.0);
    let source = here().join("tests/c/arguments.c");
    let program = directory.0.join("arguments");
    compile(&source, &program, &flags);
    let libraries = directory.0.join("usr/lib");
    let out = run(Command::new(&program).env("LD_LIBRARY_PATH", &libraries));
    assert_eq!(out, "arguments: all refused\n");

    let archive = libraries.join("libfreehold.a").display().to_string();
    let mut flags: Vec<String> = flags.into_iter().filter(|flag| flag.starts_with("-I")).collect();
    flags.push(archive);
    flags.extend(["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"].map(str::to_owned));
    compile(&source, &program, &flags);
    assert_eq!(run(&mut Command::new(&program)), "arguments: all refused\n");
}

#[test]
fn programs_find_the_library_by_its_name_and_version() {
    let directory = Directory::new("name");
    install(&directory.0);
    let libraries = directory.0.join("usr/lib");
    let link = std::fs::read_link(libraries.join("libfreehold.so")).expect("a link");
    assert_eq!(link, Path::new("libfreehold.so.0"));
    let file = std::fs::read_link(libraries.join(link)).expect("a link");
    assert_eq!(file, Path::new(concat!("libfreehold.so.", env!("CARGO_PKG_VERSION"))));
    let pc = std::fs::read_to_string(libraries.join("pkgconfig/freehold.pc")).expect("the file of pkg-config");
    assert!(pc.contains(concat!("Version: ", env!("CARGO_PKG_VERSION"))) && !pc.contains('@'));
}

/// The two commands of docs/book/src/c-abi.md, as they stand there, but for where it is installed and what is already
/// built.
#[test]
fn the_documented_commands_build_a_program_that_starts() {
    let directory = Directory::new("documented");
    let root = here().join("../..");
    let text = std::fs::read_to_string(root.join("docs/book/src/c-abi.md")).expect("the document");
    let line = |begin: &str| {
        let line = text.lines().find(|line| line.starts_with(begin)).expect("the command");
        line.split('#').next().unwrap_or_default().trim().to_owned()
    };
    let prefix = directory.0.join("a prefix");
    let make = line("make ").replace("PREFIX=/usr/local", "PREFIX=\"$P\" LIBRARIES=\"$L\"");
    let mut shell = Command::new("sh");
    shell.args(["-ec", &make]).current_dir(&root);
    run(shell.env("P", &directory.0).env("L", built()));
    std::fs::copy(root.join("examples/c/camera.c"), directory.0.join("camera.c")).expect("the example");
    let mut shell = Command::new("sh");
    shell.args(["-ec", &line("cc ")]).current_dir(&directory.0);
    run(shell.env("PKG_CONFIG_PATH", directory.0.join("lib/pkgconfig")));
    let mut program = Command::new(directory.0.join("camera"));
    program.env_remove("LD_LIBRARY_PATH").env("FREEHOLD_SOCKET", prefix);
    let output = program.output().expect("the program");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code().is_some_and(|code| code != 127) && !said.contains("shared libraries"),
        "{said}"
    );
}

/// A memory server in a process of its own: this very program, told so by a variable. It ends with its standard input.
struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    fn start(directory: &Directory) -> Self {
        let socket = directory.0.join("socket");
        let process = Command::new(std::env::current_exe().expect("the test's own path"))
            .args(["a_server_when_told_so", "--exact", "--nocapture"])
            .env(SERVE, &socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a server");
        let until = Instant::now() + Duration::from_secs(20);
        while !socket.exists() {
            assert!(Instant::now() < until, "the server does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { process, socket }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_when_told_so() {
    let Some(socket) = std::env::var_os(SERVE) else { return };
    let options = Options {
        settings: Settings::new(FrameCount::new(4096)),
        quotas: Quotas::new(rustix::process::geteuid().as_raw(), FrameCount::new(0)),
        limits: Limits::default(),
        socket: socket.into(),
        mode: 0o600,
        devices: Some(DeviceFile::parse(DEVICES, "devices.toml").expect("the test's devices are good")),
        metrics: None,
    };
    let stop = std::io::stdin().as_fd().try_clone_to_owned().expect("standard input");
    serve::serve(&options, &stop).expect("a server");
}

#[test]
fn a_program_is_served() {
    let directory = Directory::new("served");
    let flags = install(&directory.0);
    let server = Server::start(&directory);
    let program = directory.0.join("served");
    compile(&here().join("tests/c/served.c"), &program, &flags);
    let mut served = Command::new(&program);
    served.arg(here().join("include/freehold.h"));
    served.env("FREEHOLD_SOCKET", &server.socket);
    served.env("LD_LIBRARY_PATH", directory.0.join("usr/lib"));
    assert_eq!(run(&mut served), "served: all as it should be\n");
}

#[test]
fn a_device_client_is_served() {
    let directory = Directory::new("devices");
    let flags = install(&directory.0);
    let server = Server::start(&directory);
    let program = directory.0.join("devices");
    compile(&here().join("tests/c/devices.c"), &program, &flags);
    let mut client = Command::new(&program);
    client.env("FREEHOLD_SOCKET", &server.socket);
    client.env("LD_LIBRARY_PATH", directory.0.join("usr/lib"));
    assert_eq!(run(&mut client), "devices: all as it should be\n");
}

#[test]
fn the_device_example_runs() {
    let directory = Directory::new("decoder");
    let flags = install(&directory.0);
    let server = Server::start(&directory);
    let program = directory.0.join("decoder");
    compile(&here().join("../../examples/c/decoder.c"), &program, &flags);
    let mut decoder = Command::new(&program);
    decoder.arg("decoder").env("FREEHOLD_SOCKET", &server.socket);
    decoder.env("LD_LIBRARY_PATH", directory.0.join("usr/lib"));
    let out = run(&mut decoder);
    assert!(out.starts_with("decoder: 1024 of 1024 pages in "), "{out}");
}

#[test]
fn the_example_runs() {
    let directory = Directory::new("example");
    let flags = install(&directory.0);
    let server = Server::start(&directory);
    let program = directory.0.join("camera");
    compile(&here().join("../../examples/c/camera.c"), &program, &flags);
    let mut camera = Command::new(&program);
    camera.env("FREEHOLD_SOCKET", &server.socket);
    camera.env("LD_LIBRARY_PATH", directory.0.join("usr/lib"));
    let out = run(&mut camera);
    assert!(out.contains(" frames, ") && out.contains(" 0 swap-ins"), "{out}");
}
