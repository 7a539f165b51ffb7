//! Which neighbours of a fault are taken up: faults that follow each other upwards or downwards are a stream, and the
//! more of it has been taken up without a gap, the more comes along. Several streams may take turns, because programs
//! read one thing while they write another.
//!
//! An allocator that cuts a block from the top of its heap writes behind it first, before anybody writes the block. So
//! new memory that a stream skips comes along with what it goes on to.

use crate::PAGE;

/// Streams told apart for each client: each thread has a heap of its own.
const STREAMS: usize = 16;
/// Pages taken up beside the first fault of a stream of new memory: the heap that the C library's allocator begins for
/// a thread is so large.
const FIRST: u64 = 32;
/// Pages of text that come together, and which a stream skips at least.
const FEWEST: u64 = 16;
/// Pages taken up with one fault at once, at most: all of them are one step of a pager thread.
pub(super) const MOST: u64 = 64;
/// The same with the steps that follow, of a stream of new memory.
const FARTHEST: u64 = 256;

/// A piece of memory that was taken up fault by fault, by addresses.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    low: u64,
    /// The first address past it.
    high: u64,
    /// Pages that its last fault brought along.
    window: u64,
    /// Where memory was seen to end; 0 where it was not. A heap that grows has that end passed again and again.
    hole: u64,
}

impl Stream {
    /// Which way it goes on with a fault at `address`, if it does; one that skips a little still does.
    fn goes_on(&self, address: u64) -> Option<Way> {
        let gap = (2 * self.window).clamp(FEWEST, MOST) * PAGE;
        if (self.high..self.high + gap).contains(&address) {
            return Some(Way::Up);
        }
        (self.low.saturating_sub(gap)..self.low)
            .contains(&address)
            .then_some(Way::Down)
    }

    /// How many pages the next fault brings along in all: the more has been taken up, the bolder.
    fn next_window(&self, farthest: u64) -> u64 {
        (2 * self.window).clamp(FEWEST, farthest)
    }

    /// What follows what a fault at `address` has brought, up to so many pages from there.
    fn later(&self, address: u64, way: Way, window: u64, taken: Stretch, bounds: Stretch) -> Stretch {
        match way {
            Way::Up => {
                let hole = if self.hole > address { self.hole } else { u64::MAX };
                let high = (address + (1 + window) * PAGE).min(hole).min(bounds.high);
                Stretch {
                    low: taken.high,
                    high: high.max(taken.high),
                }
            }
            Way::Down => {
                let low = address.saturating_sub(window * PAGE).max(bounds.low);
                Stretch {
                    low: low.min(taken.low),
                    high: taken.low,
                }
            }
        }
    }

    /// What a fault at `address` brings along, `way` from here, with what it skips if that is to be `filled`.
    fn onwards(&self, address: u64, way: Way, window: u64, filled: bool) -> Stretch {
        let past = address + PAGE;
        match way {
            Way::Up => {
                let hole = if self.hole > address { self.hole } else { u64::MAX };
                let low = if filled { self.high } else { address };
                let high = past + window * PAGE;
                let most = low + (MOST + 1) * PAGE;
                Stretch {
                    low,
                    high: hole.min(high).min(most),
                }
            }
            Way::Down => {
                let high = if filled { self.low } else { past };
                let least = high.saturating_sub((MOST + 1) * PAGE);
                Stretch {
                    low: address.saturating_sub(window * PAGE).max(least),
                    high,
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
}

/// What a fault brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// At once, its own page included.
    pub(super) now: Stretch,
    /// In steps that follow, away from the fault.
    pub(super) later: Option<(Way, Stretch)>,
}

/// Pages of a range of addresses that hold memory of one kind, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Stretch {
    /// The first address.
    pub(in crate::engine) low: u64,
    /// The first address past it.
    pub(in crate::engine) high: u64,
}

impl Stretch {
    /// Both, and what is between them.
    pub(in crate::engine) fn with(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

/// The streams of one client, the one that went on last in front.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Streams([Stream; STREAMS]);

impl Streams {
    /// A thread has faulted at `address`, the beginning of a page inside `bounds`: what is to be taken up, that page
    /// included. `around`: what is aligned with it comes along, as the kernel maps text, and what follows only where a
    /// stream goes on.
    pub(super) fn follow(&mut self, address: u64, bounds: Stretch, around: bool) -> Taken {
        let found = (0..)
            .zip(&self.0)
            .find_map(|(at, stream)| Some((at, stream.goes_on(address)?)));
        let (at, way) = found.map_or((STREAMS - 1, None), |(at, way)| (at, Some(way)));
        self.0[..=at].rotate_right(1);
        let stream = &mut self.0[0];
        // What is aligned with it and what follows are one step too.
        let farthest = if around { MOST - FEWEST } else { FARTHEST };
        let window = match way {
            Some(_) => stream.next_window(farthest),
            None if around => FEWEST,
            None => FIRST,
        };
        let at_once = window.min(MOST);
        let wanted = match way {
            Some(way) if around => aligned(address).with(stream.onwards(address, way, at_once, false)),
            Some(way) => stream.onwards(address, way, at_once, true),
            None if around => aligned(address),
            None => Stretch {
                low: address,
                high: address + (1 + at_once) * PAGE,
            },
        };
        let now = Stretch {
            low: wanted.low.max(bounds.low),
            high: wanted.high.min(bounds.high),
        };
        let later = way.filter(|_| window > MOST);
        let later = later.map(|way| (way, stream.later(address, way, window, now, bounds)));
        *stream = match way {
            Some(_) => Stream {
                low: stream.low.min(now.low),
                high: stream.high.max(now.high),
                window,
                hole: stream.hole,
            },
            None => Stream {
                low: now.low,
                high: now.high,
                window,
                hole: 0,
            },
        };
        Taken { now, later }
    }

    /// Where frames are short: a thread has faulted at `address`, inside `bounds`. What comes with it, if it is the
    /// next page of a stream that goes upwards. [`goes_on`](Self::goes_on) is then to be told what has come.
    pub(super) fn follow_closely(&mut self, address: u64, bounds: Stretch) -> Option<Stretch> {
        let next = self.0.iter().position(|stream| stream.high == address);
        self.0[..=next.unwrap_or(STREAMS - 1)].rotate_right(1);
        let stream = &mut self.0[0];
        let past = address + PAGE;
        if next.is_none() {
            *stream = Stream {
                low: address,
                high: past,
                window: 0,
                hole: 0,
            };
            return None;
        }
        stream.window = stream.next_window(MOST);
        let high = stream.onwards(address, Way::Up, stream.window, true).high;
        stream.high = past;
        Some(Stretch {
            low: address,
            high: high.min(bounds.high),
        })
    }

    /// What [`follow`](Self::follow) would want in all of new memory for a fault at `address`, that page included.
    pub(in crate::engine) fn demand(&self, address: u64) -> Stretch {
        let found = self
            .0
            .iter()
            .find_map(|stream| Some((stream, stream.goes_on(address)?)));
        let pages = |window: u64| (1 + window) * PAGE;
        match found {
            None => Stretch {
                low: address,
                high: address.saturating_add(pages(FIRST)),
            },
            Some((stream, Way::Up)) => Stretch {
                low: stream.high,
                high: address.saturating_add(pages(stream.next_window(FARTHEST))),
            },
            Some((stream, Way::Down)) => Stretch {
                low: address.saturating_sub(stream.next_window(FARTHEST) * PAGE),
                high: stream.low,
            },
        }
    }

    /// A part of what was to come later to the fault at `address` has come.
    pub(super) fn goes_on(&mut self, address: u64, part: Stretch) {
        if let Some(stream) = self.around(address) {
            stream.low = stream.low.min(part.low);
            stream.high = stream.high.max(part.high);
        }
    }

    /// Of what [`follow`](Self::follow) said for a fault at `address`, memory ends at `end`. What has grown by so much
    /// goes on to grow by so much.
    pub(super) fn ends(&mut self, address: u64, end: u64) {
        if let Some(stream) = self.around(address) {
            stream.high = end;
            stream.hole = end;
            stream.window = end.saturating_sub(address) / PAGE / 2;
        }
    }

    /// Memory is gone, or what was in it: what a stream has taken up there is taken up no more.
    pub(super) fn lose(&mut self, gone: Stretch) {
        for stream in &mut self.0 {
            let inside = |address| stream.low < address && address < stream.high;
            if gone.low <= stream.low && stream.high <= gone.high {
                *stream = Stream::default();
            } else if inside(gone.low) {
                stream.high = gone.low;
                stream.hole = 0;
            } else if inside(gone.high) {
                stream.low = gone.high;
            }
        }
    }

    fn around(&mut self, address: u64) -> Option<&mut Stream> {
        self.0
            .iter_mut()
            .find(|stream| (stream.low..stream.high).contains(&address))
    }
}

fn aligned(address: u64) -> Stretch {
    let low = address - address % (FEWEST * PAGE);
    Stretch {
        low,
        high: low + FEWEST * PAGE,
    }
}

#[cfg(test)]
mod tests {
    use super::{FARTHEST, FEWEST, FIRST, MOST, PAGE, STREAMS, Streams, Stretch, Taken, Way};

    const ALL: Stretch = Stretch { low: 0, high: u64::MAX };

    fn pages(taken: Taken) -> std::ops::Range<u64> {
        taken.now.low / PAGE..taken.now.high / PAGE
    }

    /// What comes with a fault, and later.
    fn all(streams: &mut Streams, page: u64, bounds: Stretch) -> std::ops::Range<u64> {
        let taken = streams.follow(page * PAGE, bounds, false);
        let Some((way, later)) = taken.later else {
            return pages(taken);
        };
        match way {
            Way::Up => assert_eq!(later.low, taken.now.high),
            Way::Down => assert_eq!(later.high, taken.now.low),
        }
        streams.goes_on(page * PAGE, later);
        let both = taken.now.with(later);
        both.low / PAGE..both.high / PAGE
    }

    #[test]
    fn faults_in_order_bring_more_and_more_along() {
        let mut streams = Streams::default();
        let mut next = 1_000;
        for along in [FIRST, 2 * FIRST, 4 * FIRST, FARTHEST, FARTHEST] {
            let taken = all(&mut streams, next, ALL);
            assert_eq!(taken, next..next + 1 + along);
            next = taken.end;
        }
        let mut text = Streams::default();
        for at in [1_600, 1_616, 1_649, 1_714] {
            assert_eq!(text.follow(at * PAGE, ALL, true).later, None);
        }
    }

    #[test]
    fn what_comes_later_ends_where_memory_does() {
        for (page, way) in [(1_051, Way::Up), (950, Way::Down)] {
            let mut streams = Streams::default();
            let bounds = Stretch {
                low: 880 * PAGE,
                high: 1_120 * PAGE,
            };
            streams.0[0] = super::Stream {
                low: 951 * PAGE,
                high: 1_051 * PAGE,
                window: MOST,
                hole: 0,
            };
            let expected = if way == Way::Up { 1_051..1_120 } else { 880..951 };
            assert_eq!(all(&mut streams, page, bounds), expected);
        }
        let mut heap = Streams::default();
        heap.follow(100 * PAGE, ALL, false);
        heap.follow(133 * PAGE, ALL, false);
        let later = heap.follow(198 * PAGE, ALL, false).later;
        assert_eq!(later.map(|(_, part)| part.low / PAGE..part.high / PAGE), Some(263..327));
        heap.ends(198 * PAGE, 295 * PAGE);
        assert_eq!(
            pages(heap.follow(295 * PAGE, ALL, false)),
            295..360,
            "it has grown by 97"
        );
    }

    #[test]
    fn what_grows_downwards_is_taken_up_downwards_beside_what_grows_upwards() {
        let mut streams = Streams::default();
        let (mut up, mut down) = (100_000, 900_000);
        let mut faults = 0;
        while up < 101_000 {
            up = all(&mut streams, up, ALL).end;
            down = all(&mut streams, down - 1, ALL).start;
            faults += 1;
        }
        assert!(down < 900_000 - 900, "{down}");
        assert!(faults < 20, "{faults}");
    }

    #[test]
    fn what_is_skipped_comes_along_both_ways_but_not_of_text() {
        // A heap, then what is behind a block cut from it, and behind the next.
        let mut heap = Streams::default();
        assert_eq!(pages(heap.follow(100 * PAGE, ALL, false)), 100..133);
        assert_eq!(pages(heap.follow(133 * PAGE, ALL, false)), 133..198);
        assert_eq!(
            pages(heap.follow(230 * PAGE, ALL, false)),
            198..263,
            "no more than one step takes"
        );
        // Down, and up again towards what is there.
        assert_eq!(pages(heap.follow(90 * PAGE, ALL, false)), 35..100);
        heap.follow(1_050 * PAGE, ALL, false);
        assert_eq!(pages(heap.follow(1_030 * PAGE, ALL, false)), 985..1_050);
        let mut text = Streams::default();
        text.follow(100 * PAGE, ALL, true);
        assert_eq!(pages(text.follow(120 * PAGE, ALL, true)), 112..153);
    }

    #[test]
    fn text_below_a_stream_comes_with_what_it_is_aligned_with_too() {
        let mut text = Streams::default();
        assert_eq!(pages(text.follow(100 * PAGE, ALL, true)), 96..112);
        assert_eq!(pages(text.follow(85 * PAGE, ALL, true)), 53..96);
    }

    #[test]
    fn text_comes_with_what_it_is_aligned_with() {
        let mut streams = Streams::default();
        assert_eq!(pages(streams.follow(37 * PAGE, ALL, true)), 32..48);
        // Which a next fault goes on from.
        assert_eq!(pages(streams.follow(48 * PAGE, ALL, true)), 48..49 + 2 * FEWEST);
    }

    #[test]
    fn nothing_is_taken_past_the_bounds_nor_past_a_known_end() {
        let bounds = Stretch {
            low: 95 * PAGE,
            high: 110 * PAGE,
        };
        let mut streams = Streams::default();
        assert_eq!(pages(streams.follow(100 * PAGE, bounds, false)), 100..110);
        assert_eq!(pages(streams.follow(99 * PAGE, bounds, false)), 95..100);
        let mut heap = Streams::default();
        heap.follow(100 * PAGE, ALL, false);
        heap.ends(100 * PAGE, 108 * PAGE);
        assert_eq!(pages(heap.follow(108 * PAGE, ALL, false)), 108..125);
        heap.ends(108 * PAGE, 109 * PAGE);
        assert_eq!(pages(heap.follow(109 * PAGE, ALL, false)), 109..126);
    }

    #[test]
    fn far_faults_forget_the_oldest_stream() {
        let mut streams = Streams::default();
        let last = STREAMS as u64 + 1;
        for at in 1..=last {
            streams.follow(at * 10_000 * PAGE, ALL, false);
        }
        assert_eq!(pages(streams.follow(10_033 * PAGE, ALL, false)), 10_033..10_066);
        let next = last * 10_000 + 33;
        assert_eq!(pages(streams.follow(next * PAGE, ALL, false)), next..next + 65);
    }

    #[test]
    fn where_frames_are_short_only_the_very_next_page_goes_on_and_only_with_what_came() {
        let mut heap = Streams::default();
        let closely = |heap: &mut Streams, page: u64| {
            let wanted = heap.follow_closely(page * PAGE, ALL)?;
            Some(wanted.low / PAGE..wanted.high / PAGE)
        };
        assert_eq!(closely(&mut heap, 100), None, "the first");
        assert_eq!(closely(&mut heap, 102), None, "one is skipped");
        assert_eq!(closely(&mut heap, 101), Some(101..102 + FEWEST), "the first goes on");
        // Three of them came.
        let part = Stretch {
            low: 101 * PAGE,
            high: 105 * PAGE,
        };
        heap.goes_on(101 * PAGE, part);
        assert_eq!(closely(&mut heap, 105), Some(105..106 + 2 * FEWEST));
        assert_eq!(closely(&mut heap, 106), Some(106..107 + MOST), "nothing came");
        assert_eq!(closely(&mut heap, 103), Some(103..104 + FEWEST), "another goes on");
    }

    #[test]
    fn what_is_gone_is_taken_up_anew() {
        let gone = |low: u64, high: u64| Stretch {
            low: low * PAGE,
            high: high * PAGE,
        };
        let mut heap = Streams::default();
        heap.follow(100 * PAGE, ALL, false);
        heap.lose(gone(120, 200));
        assert_eq!(
            pages(heap.follow(125 * PAGE, ALL, false)),
            120..185,
            "the heap grows again"
        );
        let mut down = Streams::default();
        down.follow(100 * PAGE, ALL, false);
        down.lose(gone(90, 110));
        assert_eq!(pages(down.follow(105 * PAGE, ALL, false)), 45..110);
        let mut whole = Streams::default();
        whole.follow(100 * PAGE, ALL, false);
        whole.lose(gone(100, 133));
        assert_eq!(
            pages(whole.follow(130 * PAGE, ALL, false)),
            130..163,
            "nothing of it is left"
        );
        let mut other = Streams::default();
        other.follow(100 * PAGE, ALL, false);
        other.lose(gone(50, 100));
        other.lose(gone(133, 150));
        assert_eq!(pages(other.follow(133 * PAGE, ALL, false)), 133..198);
    }
}
