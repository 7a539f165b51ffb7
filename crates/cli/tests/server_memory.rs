//! The memory of a killed server, locked frames of its reservations among it, is not freed by a pager thread.

mod common;
#[path = "../../linux/tests/common/memory_helper.rs"]
mod memory_helper;
#[path = "common/server.rs"]
mod server;

use memory_helper::Helper;
use rustix::process::Signal;
use server::Server;

/// Of the server's own tables.
const AT_LEAST: u64 = 4 * 1024;

#[test]
fn what_a_killed_server_held_is_freed_when_its_threads_are_gone_and_delays_no_new_server() {
    let mut server = Server::start(&["--pool", "64MiB"]);
    let helper = Helper::of(server.child.id());
    assert_eq!(
        helper.descriptors(),
        1,
        "it holds nothing of the server's but the server"
    );
    assert_eq!(helper.policy(), 0);
    // A terminal's signals are for the server.
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1] {
        helper.send(signal);
    }
    helper.stop();

    server.child.kill().expect("it is there");
    server.child.wait().expect("a child");
    let held = helper.resident();
    assert!(
        held > AT_LEAST,
        "the server has ended, and its memory is there: {held} KiB"
    );
    server.start_again(&["--pool", "64MiB"]);
    assert_eq!(helper.resident(), held);

    helper.let_end();
    assert!(!Helper::of(server.child.id()).has_ended());
}

/// Whoever has waited for it may take its memory, in huge pages or for a server of another size.
#[test]
fn a_server_that_ends_in_order_has_given_its_memory_back() {
    let mut server = Server::start(&["--pool", "64MiB"]);
    let helper = Helper::of(server.child.id());
    // By itself it would not end.
    helper.stop();
    server.end();
    assert!(helper.has_been_waited_for(), "nothing of the server is left");
}
