//! Devices over the socket: clients in this process and in others.

mod common;

use common::{MIB, cache, content, key, until};
use freehold_client::device::{Device, DeviceError, DeviceRefusal, status};
use freehold_ecache::serve::DeviceServer;
use freehold_ecache::{Cache, DeviceState, PAGE_SIZE};
use freehold_linux::socket::PacketSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DEVICES: [(&str, &str, bool); 3] = [
    ("mfc0", "72MiB", false),
    ("jpeg", "2MiB", true),
    ("spare", "2MiB", false),
];

struct Served {
    cache: Arc<Cache>,
    _server: DeviceServer,
    socket: PathBuf,
}

fn serve(name: &str) -> Served {
    let cache = Arc::new(cache(&DEVICES));
    let socket = std::env::temp_dir().join(format!("freehold-devices-{}-{name}", std::process::id()));
    let more = || serde_json::json!({"more": 1}).as_object().cloned().unwrap_or_default();
    let server = DeviceServer::listen(&socket, Arc::clone(&cache), Box::new(more)).expect("the socket is free");
    Served {
        cache,
        _server: server,
        socket,
    }
}

fn state(cache: &Cache, place: usize) -> DeviceState {
    cache.device_rows()[place].state
}

fn refusal(result: Result<Device, DeviceError>) -> DeviceRefusal {
    match result {
        Err(DeviceError::Refused { reason, .. }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_device_is_opened_used_grown_and_closed() {
    let served = serve("use");
    let cache = &served.cache;
    for page in 0..19_456 {
        cache.put(key(1, page), &content(key(1, page), 0)).unwrap();
    }
    let mut device = Device::open(&served.socket, "mfc0", 1).unwrap();
    assert_eq!((device.opening().used, device.length()), (512, 2 * MIB));
    let bytes = memory(&device);
    assert!(bytes.iter().all(|byte| *byte == 0));
    bytes.fill(7);
    device.grow(0).unwrap();
    assert_eq!((device.opening().used, device.length()), (18_432, 72 * MIB));
    let bytes = memory(&device);
    assert_eq!(bytes.iter().filter(|byte| **byte == 7).count(), 2 * MIB);
    assert_eq!(device.descriptors().count(), 36);
    assert_eq!(refusal(Device::open(&served.socket, "mfc0", 0)), DeviceRefusal::InUse);
    assert_eq!(refusal(Device::open(&served.socket, "none", 0)), DeviceRefusal::Unknown);
    assert_eq!(
        refusal(Device::open(&served.socket, "jpeg", 513)),
        DeviceRefusal::TooLarge
    );
    drop(device);
    until("it comes back", || state(cache, 0) == DeviceState::Idle);
    let mut page = [0; PAGE_SIZE];
    let hits = (0..19_456)
        .filter(|number| cache.get(key(1, *number), &mut page))
        .count();
    assert_eq!((hits, cache.region_row().mismatched), (1024, 0));
    let text = status(&served.socket).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["victim_cache"]["frames"], 19_456);
    assert_eq!(
        (&document["devices"][0]["opens"], &document["more"]),
        (&1.into(), &1.into())
    );
}

#[allow(clippy::mut_from_ref, reason = "it is shared memory")]
fn memory(device: &Device) -> &mut [u8] {
    // SAFETY: mapped as long as the device is open, and used by nobody else in this test.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(device.address()), device.length()) }
}

#[test]
fn a_server_that_ends_takes_its_own_socket_away_and_no_other() {
    let first = serve("next");
    // As the next server does it, where nobody answers any more.
    std::fs::remove_file(&first.socket).unwrap();
    let second = serve("next");
    drop(first);
    Device::open(&second.socket, "spare", 0).expect("the second listens there");
    let socket = second.socket.clone();
    drop(second);
    assert!(!socket.exists());
}

#[test]
fn garbage_and_silence_end_a_connection_and_nothing_else() {
    let served = serve("garbage");
    let socket = PacketSocket::connect(&served.socket).unwrap();
    socket.send(&[0xff; 100], &[]).unwrap();
    let mut buffer = [0; 4096];
    assert!(socket.receive(&mut buffer).unwrap().is_some());
    assert!(matches!(socket.receive(&mut buffer), Ok(None) | Err(_)));
    let clients: Vec<PacketSocket> = (0..300)
        .map_while(|_| PacketSocket::connect(&served.socket).ok())
        .collect();
    assert!(clients.len() > 200);
    drop(clients);
    until("there is room again", || {
        Device::open(&served.socket, "spare", 0).is_ok()
    });
}

/// The child: opens the device, says so, and keeps it in a child of its own as long as that lives.
fn hold(socket: &Path) -> ! {
    let device = Device::open(socket, "mfc0", 0).expect("it is free");
    memory(&device)[..PAGE_SIZE].fill(9);
    println!("open");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_client_killed_or_stopped_delays_nobody() {
    if let Some(socket) = std::env::var_os("FREEHOLD_TEST_HOLDS") {
        hold(Path::new(&socket));
    }
    let served = serve("killed");
    for round in 0..3 {
        let program = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(program);
        child.args(["--exact", "a_client_killed_or_stopped_delays_nobody", "--nocapture"]);
        child
            .env("FREEHOLD_TEST_HOLDS", &served.socket)
            .stdout(std::process::Stdio::null());
        let mut child = child.spawn().unwrap();
        until("the child opens it", || state(&served.cache, 0) == DeviceState::Open);
        let pid = rustix::process::Pid::from_child(&child);
        if round == 1 {
            rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        }
        assert_eq!(served.cache.device_rows()[0].client, Some(child.id()));
        drop(Device::open(&served.socket, "jpeg", 0).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        until("it comes back", || state(&served.cache, 0) == DeviceState::Idle);
    }
    served.cache.check_laws().unwrap();
}
