//! Swap of the kernel's own in memory: a zram device of its own (Documentation/admin-guide/blockdev/zram.rst). For
//! comparing with it. What is swapped there is compressed.

use crate::swap::{SwapError, begin_use, end_use, header};
use crate::{Errno, PAGE_SIZE};
use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

/// Where devices are made and removed.
const CONTROL: &str = "/sys/class/zram-control";

/// A zram device that the whole system may swap to. Dropping it reads all pages back and removes it.
#[derive(Debug)]
pub struct Zram {
    number: u32,
}

impl Zram {
    /// A new device, of no size yet.
    ///
    /// # Errors
    /// [`SwapError::File`] where the kernel has no zram, or the caller may not make devices.
    pub fn new() -> Result<Self, SwapError> {
        let said = fs::read_to_string(format!("{CONTROL}/hot_add"))?;
        let number = said.trim().parse();
        number
            .map(|number| Self { number })
            .map_err(|_| SwapError::System(Errno::INVAL))
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Gives it room for so many pages, and has the system swap to it before all other swap.
    ///
    /// # Errors
    /// See [`SwapError`].
    pub fn swap_on(&self, pages: usize) -> Result<(), SwapError> {
        let header = header(pages).ok_or(SwapError::Size(pages))?;
        let bytes = pages.saturating_mul(PAGE_SIZE).to_string();
        fs::write(format!("/sys/block/zram{}/disksize", self.number), bytes)?;
        let mut device = fs::OpenOptions::new().write(true).open(device(self.number))?;
        device.write_all(&header)?;
        device.sync_all()?;
        drop(device);
        begin_use(&name(self.number), true).map_err(|errno| match errno {
            Errno::PERM => SwapError::NotPermitted,
            other => SwapError::System(other),
        })
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        if remove(self.number).is_err() {
            let path = device(self.number);
            let _ = writeln!(
                std::io::stderr(),
                "freehold: {} is still in use: run swapoff, then write {} to {CONTROL}/hot_remove",
                path.display(),
                self.number
            );
        }
    }
}

/// Ends the use of a device, which reads its pages back, and removes it. One that is gone is as well.
///
/// # Errors
/// The kernel's refusal.
pub fn remove(number: u32) -> Result<(), Errno> {
    if !device(number).exists() {
        return Ok(());
    }
    end_use(&name(number))?;
    let removed = fs::write(format!("{CONTROL}/hot_remove"), number.to_string());
    removed.map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
}

fn device(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/zram{number}"))
}

fn name(number: u32) -> CString {
    CString::new(format!("/dev/zram{number}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Zram, device};

    /// As root, where the kernel has zram.
    #[test]
    fn a_device_is_swapped_to_and_goes() {
        let Ok(zram) = Zram::new() else {
            println!("not tested: no zram device can be made here");
            return;
        };
        let path = device(zram.number());
        zram.swap_on(1_024).unwrap();
        let swaps = || std::fs::read_to_string("/proc/swaps").unwrap();
        let name = path.display().to_string();
        assert!(swaps().contains(&name));
        drop(zram);
        assert!(!swaps().contains(&name) && !path.exists());
    }
}
