//! Mappings of one file that follow each other. A program may map a file as data too, in whole or in part, and next to
//! where the dynamic linker has put it: what is served lies where that says.

use core::sync::atomic::Ordering;

use crate::client::Client;
use crate::process::PAGE;
use crate::sys;
use crate::sys::maps::Line;
use crate::text::elf::{Headers, first_page};
use crate::text::{File, Range, serve};

/// Mappings of one run that are kept.
const LINES: usize = 16;

/// The mappings that are never written, and how far all go.
#[derive(Debug, Default)]
pub(super) struct Run {
    lines: [Range; LINES],
    count: usize,
    start: usize,
    end: usize,
}

impl Run {
    /// One more mapping, behind those before.
    pub(super) fn add(&mut self, line: &Line<'_>) {
        if self.end == 0 {
            self.start = line.start;
        }
        self.end = line.end;
        if line.writable || !line.private || !(line.readable || line.executable) {
            return;
        }
        if self.count == LINES {
            // None of them is the linker's: with that the run would have ended.
            self.lines.rotate_left(1);
            self.count -= 1;
        }
        let readable = if line.readable { sys::PROT_READ } else { 0 };
        let executable = if line.executable { sys::PROT_EXEC } else { 0 };
        if let Some(place) = self.lines.get_mut(self.count) {
            *place = Range {
                start: line.start,
                end: line.end,
                offset: line.offset,
                protection: readable | executable,
            };
            self.count += 1;
        }
    }

    /// Where the dynamic linker has an object's dynamic section in this run; not this library's own, whose text must
    /// always be there.
    pub(super) fn link(&self, client: &Client) -> Option<usize> {
        let own = serve as *const () as usize;
        let count = client.link_count.load(Ordering::Acquire);
        let mut links = client.links.iter().take(count).map(|link| link.load(Ordering::Relaxed));
        let place = self.start..self.end;
        links
            .find(|link| place.contains(link))
            .filter(|_| !place.contains(&own))
    }

    /// Writes down the parts of the object with this dynamic section that are never written; none where the file's
    /// own headers do not say so.
    pub(super) fn ranges(&self, client: &Client, link: usize, file: &mut File) {
        let lines = self.lines.get(..self.count).unwrap_or_default();
        let begins = |line: &&Range| line.offset == 0 && line.start <= link && line.protection & sys::PROT_READ != 0;
        // A small file's segments may all begin on its first page.
        let mut whole = lines.iter().rev().filter(begins);
        let mut page = [0; PAGE];
        let found = whole.find_map(|line| {
            page = first_page(client, line.start)?;
            Headers::of(&page, line.start, link).map(|_| line.start)
        });
        let Some(headers) = found.and_then(|base| Headers::of(&page, base, link)) else {
            return;
        };
        for line in lines {
            headers.read_only_parts(line.start, line.end, |start, end| {
                if let Some(place) = file.ranges.get_mut(file.count) {
                    *place = Range {
                        start,
                        end,
                        offset: line.offset + (start - line.start),
                        protection: line.protection,
                    };
                    file.count += 1;
                }
            });
        }
    }
}
