//! What the subcommands of `freehold` stand on.
