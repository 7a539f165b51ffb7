//! Has the dynamic linker initialise the agent before every other library, wherever it is preloaded: they make memory
//! and start threads in their constructors.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo::rerun-if-changed=build.rs");
}
