//! An open device whose client looks after its memory: it must come as zeros unless the client is trusted, and what the
//! client writes must be there until it closes.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;

use freehold_client::device::Device;
use freehold_linux::PAGE_SIZE;
use freehold_scenario::ScenarioDevice;

/// The device, and what its client wrote to every page, unless that failed.
#[derive(Debug)]
pub(crate) struct WatchedDevice<'a> {
    device: Device,
    row: &'a ScenarioDevice,
    mark: Option<u8>,
}

impl<'a> WatchedDevice<'a> {
    /// Looks at all of the memory and writes to it; `opening` is the opening's number.
    pub(crate) fn new(device: Device, row: &'a ScenarioDevice, opening: u64, wrong: &mut Vec<String>) -> Self {
        let zeros = |page: &[u8]| row.trusted || page == [0; PAGE_SIZE];
        if let Err(what) = each_page(&device, zeros) {
            wrong.push(format!("memory of {} does not come as zeros: {what}", row.name));
        }
        let mark = mark(opening);
        let written = device
            .descriptors()
            .try_for_each(|(memory, length)| write_all(memory, length, mark));
        if let Err(error) = &written {
            wrong.push(format!("memory of {} cannot be written: {error}", row.name));
        }
        let mark = written.is_ok().then_some(mark);
        Self { device, row, mark }
    }

    /// Looks whether everything written is there, and closes the device.
    pub(crate) fn close(self, wrong: &mut Vec<String>) {
        let Self { device, row, mark } = self;
        if let Some(mark) = mark
            && let Err(what) = each_page(&device, |page| page == [mark; PAGE_SIZE])
        {
            wrong.push(format!("what {} had written is not there: {what}", row.name));
        }
        if let Err(error) = device.close() {
            wrong.push(format!("{} could not be closed: {error}", row.name));
        }
    }
}

/// What is written in an opening.
fn mark(opening: u64) -> u8 {
    u8::try_from(opening % 255).unwrap_or(0) + 1
}

fn write_all(memory: BorrowedFd<'_>, length: usize, mark: u8) -> io::Result<()> {
    let memory = File::from(memory.try_clone_to_owned()?);
    let mut pages = (0..length).step_by(PAGE_SIZE);
    pages.try_for_each(|offset| memory.write_all_at(&[mark; PAGE_SIZE], offset as u64))
}

/// Looks at every page of a device; what is wrong with the first that is not as it must be.
fn each_page(device: &Device, is_right: impl Fn(&[u8]) -> bool) -> Result<(), String> {
    let mut content = [0; PAGE_SIZE];
    let mut page = 0_usize;
    for (memory, length) in device.descriptors() {
        let memory = memory.try_clone_to_owned().map_err(|error| error.to_string())?;
        let memory = File::from(memory);
        for offset in (0..length).step_by(PAGE_SIZE) {
            match memory.read_exact_at(&mut content, offset as u64) {
                Ok(()) if is_right(&content) => page += 1,
                Ok(()) => return Err(format!("page {page}")),
                Err(error) => return Err(format!("page {page} cannot be read: {error}")),
            }
        }
    }
    Ok(())
}
