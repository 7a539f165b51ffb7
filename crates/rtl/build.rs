//! Gives the library the name by which modules need it, and collects the headers, which the command carries in itself.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfreehold_rtl.so");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=include");
    // As it is now: a tree that was copied together with what was built in it names its own headers.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?;
    let root = Path::new(&manifest).join("include");
    let mut names = Vec::new();
    collect(&root, "", &mut names)?;
    names.sort();
    let mut text = String::from("/// Each header's name and text.\npub(crate) const HEADERS: &[(&str, &str)] = &[\n");
    for name in names {
        let path = root.join(&name);
        let _ = writeln!(text, "    ({name:?}, include_str!({path:?})),");
    }
    text.push_str("];\n");
    let out = std::env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(Path::new(&out).join("headers.rs"), text)
}

fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{name}/"), names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}
