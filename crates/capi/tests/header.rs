//! The header in the repository is the one that this crate's source makes.

use std::path::Path;

/// Set to write the header instead of comparing it.
const WRITE: &str = "FREEHOLD_WRITE_HEADER";

#[test]
fn the_header_is_current() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(directory.join("cbindgen.toml")).expect("cbindgen.toml");
    let made = cbindgen::Builder::new()
        .with_config(config)
        .with_crate(directory)
        .generate()
        .expect("the source can be read");
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).expect("text");
    let path = directory.join("include/freehold.h");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &text).expect("the header can be written");
    }
    let checked_in = std::fs::read_to_string(&path).expect("the header is there");
    assert!(
        checked_in == text,
        "include/freehold.h is not what the source makes: run {WRITE}=1 cargo test -p freehold-capi --test header"
    );
}
