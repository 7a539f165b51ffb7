//! ReportedJobs systemd how far the server is: one datagram to the socket that `NOTIFY_SOCKET` names.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use tracing::warn;

/// Sends `state`, where somebody wants to know.
pub(super) fn tell(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let bytes = name.as_encoded_bytes();
    let address = match bytes.split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest),
        _ => SocketAddr::from_pathname(&name),
    };
    let sent = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(state.as_bytes(), &address)
    });
    if let Err(error) = sent {
        warn!(%error, "the service manager cannot be told: {state:?}");
    }
}
