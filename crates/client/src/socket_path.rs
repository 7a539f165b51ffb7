//! Where the server is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use freehold_linux::process;
use freehold_protocol::{SOCKET_VARIABLE, SYSTEM_SOCKET};

/// A user's own server listens at this name in `$XDG_RUNTIME_DIR`.
const USER_SOCKET: &str = "freehold.sock";

/// The socket to connect to where nobody names one: that of `FREEHOLD_SOCKET`; else the user's own server if there is
/// one; else the system's. A server has the memory of its clients in hand: a set-user-id program passes over what the
/// environment says, which is the word of whoever started it.
#[must_use]
pub fn default_socket() -> PathBuf {
    if process::has_rights_of_its_program() {
        return SYSTEM_SOCKET.into();
    }
    choose(
        std::env::var_os(SOCKET_VARIABLE),
        std::env::var_os("XDG_RUNTIME_DIR"),
        |path| path.exists(),
    )
}

fn choose(named: Option<OsString>, runtime: Option<OsString>, exists: impl Fn(&Path) -> bool) -> PathBuf {
    if let Some(path) = named.filter(|path| !path.is_empty()) {
        return path.into();
    }
    let own = runtime
        .filter(|path| !path.is_empty())
        .map(|directory| Path::new(&directory).join(USER_SOCKET));
    own.filter(|path| exists(path)).unwrap_or_else(|| SYSTEM_SOCKET.into())
}

#[cfg(test)]
mod tests {
    use super::choose;
    use std::path::Path;

    #[test]
    fn what_is_named_comes_before_the_own_server_and_that_before_the_systems() {
        let (named, runtime) = (Some("a.sock".into()), Some("run".into()));
        assert_eq!(choose(named, runtime.clone(), |_| true), Path::new("a.sock"));
        assert_eq!(choose(None, runtime.clone(), |_| true), Path::new("run/freehold.sock"));
        assert_eq!(
            choose(Some("".into()), runtime, |_| false),
            Path::new("/run/freehold/socket")
        );
        assert_eq!(choose(None, None, |_| true), Path::new("/run/freehold/socket"));
    }
}
