//! C programs, compiled against the installed library and run.

use std::path::{Path, PathBuf};
use std::process::Command;

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
