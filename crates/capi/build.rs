//! Gives the shared library its name, by which programs find it when they start.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfreehold.so.0");
}
