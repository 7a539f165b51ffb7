//! Devices of a memory server, as the command opens them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "common/server.rs"]
mod server;

use common::{document, freehold, status, stderr};
use server::Server;
use std::path::PathBuf;

fn device_file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("freehold-devices-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_device_is_opened_beside_reservations_and_its_memory_comes_back() {
    let text = "[region]\nbacking = \"small\"\n[[device]]\nname = \"mfc0\"\nsize = \"4MiB\"\n\
                [[device]]\nname = \"jpeg\"\nsize = \"2MiB\"\ntrusted = true\n";
    let file = device_file("open", text);
    let path = file.to_str().unwrap();
    let server = Server::start(&["--pool", "16MiB", "--devices", path]);
    let opened = server.run(&["device", "open", "mfc0", "--use", "2MiB", "--hold", "1ms", "--json"]);
    assert_eq!(status(&opened), 0, "{}", stderr(&opened));
    let row = document(&opened);
    assert_eq!(
        (&row["pages"], &row["used"], &row["zeroed_pages"]),
        (&1024.into(), &512.into(), &512.into())
    );
    assert_eq!((&row["trusted"], &row["descriptors"]), (&false.into(), &1.into()));
    // The program has the device's memory, and its status is the command's.
    let script = "test -n \"$FREEHOLD_DEVICE_DESCRIPTORS\" && exit 7";
    let mut program = freehold(&["device", "open", "jpeg", "--json", "--", "sh", "-c", script]);
    let ran = program.env("FREEHOLD_SOCKET", &server.socket).output().unwrap();
    assert_eq!(status(&ran), 7, "{}", stderr(&ran));
    let document = document(&server.run(&["status", "--json"]));
    let region = &document["victim_cache"];
    assert_eq!(
        (&region["frames"], &document["memory"]["outside"]),
        (&1536.into(), &1536.into())
    );
    assert_eq!(&document["devices"][0]["opens"], 1);
    let refused = server.run(&["device", "open", "none"]);
    assert_eq!(status(&refused), 1);
    assert!(
        stderr(&refused).contains("there is no device `none`"),
        "{}",
        stderr(&refused)
    );
    std::fs::remove_file(file).unwrap();
}

#[test]
fn devices_that_do_not_fit_and_servers_without_any_are_refused() {
    let server = Server::start(&["--pool", "16MiB"]);
    let refused = server.run(&["device", "open", "mfc0"]);
    assert_eq!(status(&refused), 1);
    assert!(stderr(&refused).contains("--devices FILE"), "{}", stderr(&refused));
    let file = device_file("large", "[[device]]\nname = \"a\"\nsize = \"64MiB\"\n");
    let refused = server.run(&["serve", "--pool", "16MiB", "--devices", file.to_str().unwrap()]);
    assert_eq!(status(&refused), 2);
    assert!(stderr(&refused).contains("device.size"), "{}", stderr(&refused));
    std::fs::remove_file(file).unwrap();
}
