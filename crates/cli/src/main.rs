//! The `freehold` command.
fn main() {}
