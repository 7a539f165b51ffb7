//! Perfetto's packets: descriptions of tracks, and events on them. The numbers are those of Perfetto's public
//! definitions (`trace_packet.proto`, `track_descriptor.proto`, `track_event.proto`), which never change.

use super::encoding::Message;

/// The number of a track, unique in the trace; 0 is no track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Track(u64);

/// All packets come from one writer.
const WRITER: u64 = 1;
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;
const IN_ORDER_OF_RANK: u64 = 3;
const UNIT_COUNT: u64 = 2;

/// A trace under construction.
#[derive(Debug, Default)]
pub(super) struct Packets {
    trace: Vec<u8>,
    tracks: u64,
}

/// What is said beside an event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Note<'a> {
    Number(&'a str, u64),
    Text(&'a str, &'a str),
    Truth(&'a str, bool),
}

impl Packets {
    /// A process, with its tracks in the order in which they are made.
    pub(super) fn process(&mut self, number: u64, name: &str) -> Track {
        let process = Message::default().number(1, number).text(6, name).number(3, number);
        let track = self.new_track();
        let described = Message::default()
            .number(1, track.0)
            .message(3, &process)
            .number(11, IN_ORDER_OF_RANK);
        self.describe(&described);
        track
    }

    /// A track of slices and instants beneath another one.
    pub(super) fn track(&mut self, parent: Track, name: &str) -> Track {
        let track = self.new_track();
        self.describe(&child(track, parent, name));
        track
    }

    /// A counter beneath another track; those of one `axis` are drawn to one scale.
    pub(super) fn counter(&mut self, parent: Track, name: &str, unit: &str, axis: &str) -> Track {
        let track = self.new_track();
        let counter = Message::default().number(3, UNIT_COUNT).text(6, unit).text(7, axis);
        self.describe(&child(track, parent, name).message(8, &counter));
        track
    }

    /// A slice begins.
    pub(super) fn begin(&mut self, at: u64, track: Track, name: &str, notes: &[Note<'_>]) {
        self.event(at, noted(head(SLICE_BEGIN, track).text(23, name), notes));
    }

    /// The slice that began last on this track, and has not ended, ends.
    pub(super) fn end(&mut self, at: u64, track: Track) {
        self.event(at, head(SLICE_END, track));
    }

    /// Something without duration.
    pub(super) fn instant(&mut self, at: u64, track: Track, name: &str, notes: &[Note<'_>]) {
        self.event(at, noted(head(INSTANT, track).text(23, name), notes));
    }

    /// The value of a counter from now on.
    pub(super) fn value(&mut self, at: u64, track: Track, value: u64) {
        // The field is signed; counts of frames are far from its end.
        self.event(at, head(COUNTER, track).number(30, value.min(i64::MAX.unsigned_abs())));
    }

    /// The trace.
    pub(super) fn finish(self) -> Vec<u8> {
        self.trace
    }

    fn new_track(&mut self) -> Track {
        self.tracks += 1;
        Track(self.tracks)
    }

    fn describe(&mut self, descriptor: &Message) {
        self.packet(Message::default().message(60, descriptor));
    }

    fn event(&mut self, at: u64, event: Message) {
        self.packet(Message::default().number(8, at).message(11, &event));
    }

    fn packet(&mut self, packet: Message) {
        let packet = Message::default().message(1, &packet.number(10, WRITER));
        self.trace.extend_from_slice(packet.bytes());
    }
}

fn child(track: Track, parent: Track, name: &str) -> Message {
    // Numbers ascend with the order of making, so they serve as ranks; the field is 32 bits wide and signed.
    let rank = track.0.min(i32::MAX.unsigned_abs().into());
    Message::default()
        .number(1, track.0)
        .number(5, parent.0)
        .text(2, name)
        .number(11, IN_ORDER_OF_RANK)
        .number(12, rank)
}

fn head(kind: u64, track: Track) -> Message {
    Message::default().number(9, kind).number(11, track.0)
}

fn noted(event: Message, notes: &[Note<'_>]) -> Message {
    notes.iter().fold(event, |event, note| {
        let note = match *note {
            Note::Number(name, value) => Message::default().text(10, name).number(3, value),
            Note::Text(name, value) => Message::default().text(10, name).text(6, value),
            Note::Truth(name, value) => Message::default().text(10, name).number(2, value.into()),
        };
        event.message(4, &note)
    })
}
