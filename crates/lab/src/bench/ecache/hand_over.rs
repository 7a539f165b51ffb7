//! A device of 70 MiB opened through its socket, out of a full victim cache, beside a bare hand-over of as many
//! descriptors: made, sent, received, mapped.

use std::sync::Arc;
use std::thread::JoinHandle;

use freehold_client::device::Device;
use freehold_ecache::PAGE_SIZE;
use freehold_linux::PageRange;
use freehold_linux::memory::{Chunk, Window};
use freehold_linux::socket::{Listener, MOST_DESCRIPTORS, PacketSocket};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use super::super::Bench;
use super::super::rounds::{Effort, Found, Samples, refused};
use crate::devices::{self, Served, SocketPath};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

/// Paper 003's video decoder.
const MEBIBYTES: u32 = 70;
const PAGES: u32 = MEBIBYTES * 256;
/// Opens in a round.
const OPENS: u32 = 20;
/// What copying takes at least, beside a hand-over.
const COPY: f64 = 10.0;

/// The benchmark of trusted devices.
pub(in super::super) const TRUSTED: Bench = Bench {
    name: "ecache-handover",
    about: "a trusted device of 70 MiB opened out of a full cache, until its memory is mapped",
    floor: "a server thread reopens as many memory objects, full as well, and sends them; they are mapped",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.5,
    run: |effort| run(effort, true),
};

/// The benchmark of untrusted devices.
pub(in super::super) const ZEROED: Bench = Bench {
    name: "ecache-handover-zeroed",
    about: "an untrusted device of 70 MiB opened out of a full cache: filled with zeros, until it is mapped",
    floor: "the bare hand-over of as many memory objects, full as well, filled with zeros by one thread",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.2,
    run: |effort| run(effort, false),
};

fn run(effort: Effort, trusted: bool) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let served = Served::start(devices::cache(&[("device", MEBIBYTES)], trusted)?)?;
    let is_huge = served.cache.region_row().backing == "huge";
    let descriptors = descriptors(&served)?;
    let bare = Bare::start(descriptors, is_huge, !trusted)?;
    let (mut touched, mut bare_touched) = (Samples::new()?, Samples::new()?);
    let (mut copies, mut returns, mut page) = (Samples::new()?, Samples::new()?, [7; PAGE_SIZE]);
    let opens = effort.scaled(OPENS);
    found.alternate(
        effort,
        |samples| {
            for _ in 0..opens {
                bare.fill()?;
                let memory = samples.time(|| bare.open())?;
                bare_touched.time(|| memory.touch())?;
            }
            copies.time(|| bare.copy())
        },
        |samples| {
            for _ in 0..opens {
                devices::fill(&served.cache, PAGES)?;
                let device = samples.time(|| served.open("device"))?;
                if device.opening().discarded != PAGES || device.length() != MEBIBYTES as usize * 1024 * 1024 {
                    return Err(Failure::Run(format!("the device got {:?}", device.opening())));
                }
                touched.time(|| touch(&device, &mut page))?;
                returns.time(|| served.close(device))?;
            }
            Ok(())
        },
    )?;
    let (ours, copied) = (found.ours.quantiles().p50, copies.quantiles().p50);
    found.add_side("bare: a byte of each page touched then", &bare_touched);
    found.add_side("a byte of each page touched then", &touched);
    found.add_side("closed, until it can be opened again", &returns);
    found.add_side("70 MiB copied into fresh pages", &copies);
    found.goal_row("the hand-over beside the copy", ours / copied, "", 1.0 / COPY);
    found.goal_row(
        "ratio of the 99th percentiles",
        found.ours.quantiles().p99 / found.floor.quantiles().p99,
        "",
        2.0,
    );
    let kind = if is_huge { "huge" } else { "small" };
    found.notes.push(format!(
        "{descriptors} memory objects on {kind} pages, {PAGES} pages cached before each opening"
    ));
    Ok(found)
}

/// As many memory objects as an opening gets.
fn descriptors(served: &Served) -> Result<usize, Failure> {
    let device = served.open("device")?;
    let count = device.descriptors().count();
    served.close(device)?;
    Ok(count)
}

/// A byte of each page, through a descriptor's mapping of its own: the program maps what it got.
fn touch(device: &Device, page: &mut [u8; PAGE_SIZE]) -> Result<(), Failure> {
    let window = Window::reserve(PAGES as usize).map_err(refused)?;
    let mut first = 0;
    for (descriptor, _) in device.descriptors() {
        let descriptor = rustix::io::dup(descriptor).map_err(refused)?;
        let chunk = Chunk::adopt(descriptor).map_err(refused)?;
        window.place(first, &chunk).map_err(refused)?;
        first += chunk.pages();
    }
    touch_all(&window, page)
}

fn touch_all(window: &Window, page: &mut [u8; PAGE_SIZE]) -> Result<(), Failure> {
    // Room for more lies behind them.
    for number in 0..PAGES as usize {
        window.read(number, page).map_err(refused)?;
    }
    Ok(())
}

/// A server that knows one thing: to hand over all that it has to whoever asks.
struct Bare {
    socket: SocketPath,
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    source: Arc<Region>,
    count: usize,
}

/// Memory objects that are resident, and mapped in one piece.
struct Region {
    window: Window,
    chunks: Vec<Chunk>,
}

impl Region {
    fn new(count: usize, is_huge: bool) -> Result<Self, Failure> {
        let (whole, size) = (PAGES as usize, PAGES as usize / count.max(1));
        let window = Window::reserve(whole).map_err(refused)?;
        let mut chunks = Vec::new();
        for place in 0..count {
            let chunk = Chunk::create(c"freehold-bench", size, is_huge).map_err(refused)?;
            window.place(place * size, &chunk).map_err(refused)?;
            chunks.push(chunk);
        }
        window.populate(PageRange::new(0, whole)).map_err(refused)?;
        Ok(Self { window, chunks })
    }

    fn serve(&self, client: &PacketSocket, is_zeroed: bool) -> Result<(), Failure> {
        let mut byte = [0; 1];
        client.set_blocking(true).map_err(refused)?;
        client.receive(&mut byte).map_err(refused)?;
        if is_zeroed {
            let whole = PageRange::new(0, self.window.pages());
            self.window.zero(whole).map_err(refused)?;
        }
        let reopened: Result<Vec<OwnedFd>, _> = self.chunks.iter().map(Chunk::reopen).collect();
        let reopened = reopened.map_err(refused)?;
        let borrowed: Vec<BorrowedFd<'_>> = reopened.iter().map(AsFd::as_fd).collect();
        for packet in borrowed.chunks(MOST_DESCRIPTORS) {
            client.send(&byte, packet).map_err(refused)?;
        }
        Ok(())
    }
}

/// What a client of the bare server has.
struct Given {
    window: Window,
    _chunks: Vec<Chunk>,
}

impl Given {
    fn touch(&self) -> Result<(), Failure> {
        touch_all(&self.window, &mut [0; PAGE_SIZE])
    }
}

impl Bare {
    fn start(count: usize, is_huge: bool, is_zeroed: bool) -> Result<Self, Failure> {
        let source = Arc::new(Region::new(count, is_huge)?);
        let socket = SocketPath::new("bare");
        let listener = Listener::bind(socket.as_ref(), 8).map_err(refused)?;
        let (ours, theirs) = rustix::pipe::pipe().map_err(refused)?;
        let serving = Arc::clone(&source);
        let thread = std::thread::spawn(move || {
            while let Ok(true) = next(&listener, &ours) {
                let Ok(Some(client)) = listener.accept() else { continue };
                // A client that is not served sees its connection end.
                let _ = serving.serve(&client, is_zeroed);
            }
        });
        Ok(Self {
            socket,
            stop: Some(theirs),
            thread: Some(thread),
            source,
            count,
        })
    }

    fn open(&self) -> Result<Given, Failure> {
        let connection = PacketSocket::connect(self.socket.as_ref()).map_err(refused)?;
        connection.send(&[1], &[]).map_err(refused)?;
        let window = Window::reserve(PAGES as usize * 2).map_err(refused)?;
        let (mut chunks, mut page) = (Vec::new(), 0);
        while chunks.len() < self.count {
            let packet = connection.receive(&mut [0; 1]).map_err(refused)?;
            let packet = packet.ok_or_else(|| refused("the bare server is gone"))?;
            for descriptor in packet.descriptors {
                let chunk = Chunk::adopt(descriptor).map_err(refused)?;
                window.place(page, &chunk).map_err(refused)?;
                page += chunk.pages();
                chunks.push(chunk);
            }
        }
        Ok(Given {
            window,
            _chunks: chunks,
        })
    }

    /// Its memory is full before each opening, as the cache's is, and the CPU's caches hold its pages.
    fn fill(&self) -> Result<(), Failure> {
        (0..PAGES as usize).try_for_each(|number| self.source.window.write(number, &[7; PAGE_SIZE]).map_err(refused))
    }

    /// What migration does at least: all of it into pages that were nobody's.
    fn copy(&self) -> Result<(), Failure> {
        let (window, mut page) = (Window::reserve(PAGES as usize).map_err(refused)?, [0; PAGE_SIZE]);
        let fresh = Chunk::create(c"freehold-bench", PAGES as usize, false).map_err(refused)?;
        window.place(0, &fresh).map_err(refused)?;
        for number in 0..PAGES as usize {
            self.source.window.read(number, &mut page).map_err(refused)?;
            window.write(number, &page).map_err(refused)?;
        }
        Ok(())
    }
}

/// Waits for a client; false where the end has come.
fn next(listener: &Listener, stop: &OwnedFd) -> Result<bool, rustix::io::Errno> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut sources = [
        PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
    ];
    rustix::io::retry_on_intr(|| poll(&mut sources, None))?;
    Ok(sources[1].revents().is_empty())
}

impl Drop for Bare {
    fn drop(&mut self) {
        // The pipe's other end becomes ready.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
