//! Regions.

use std::ffi::{c_char, c_int};
use std::os::fd::BorrowedFd;
use std::path::Path;

use freehold_client::{Regime, Region, RegionKind, RegionSpec};

use crate::connection::freehold_connection;
use crate::error::{Problem, freehold_status, guard};
use crate::handle::{self, object};
use crate::sized::{self, Versioned};
use crate::text;

/// A region of memory, or a file's content.
#[derive(Debug)]
pub struct freehold_region {
    _private: [u8; 0],
}

object!(freehold_region, Region, "region", b"fhregion");

/// For `freehold_region_options.kind`: for the tasks of this program.
pub const FREEHOLD_PRIVATE: u32 = 1;
/// For `freehold_region_options.kind`: for whoever opens the same name.
pub const FREEHOLD_SHARED: u32 = 2;
/// For `regime`: Shared-Page Conservation, and the eviction lock where pages are locked. 0 means this too.
pub const FREEHOLD_CONSERVE: u32 = 1;
/// For `regime`: pages may be taken by any sharer's eviction, for comparison.
pub const FREEHOLD_UNMANAGED: u32 = 2;

/// A region to be opened.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct freehold_region_options {
    /// sizeof(freehold_region_options).
    pub size: usize,
    /// Its name, among this user's regions. Root and the server's user name another user's with UID: before it.
    pub name: *const c_char,
    /// Its length in pages of 4096 bytes.
    pub pages: u32,
    /// FREEHOLD_PRIVATE or FREEHOLD_SHARED.
    pub kind: u32,
    /// FREEHOLD_CONSERVE or FREEHOLD_UNMANAGED; the first to open a region decides.
    pub regime: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, begins with its size, integers and a pointer only.
unsafe impl Versioned for freehold_region_options {
    const LEAST: usize = 32;
    const NAME: &'static str = "freehold_region_options";
}

fn regime(number: u32) -> Result<Regime, Problem> {
    match number {
        0 | FREEHOLD_CONSERVE => Ok(Regime::Conserve),
        FREEHOLD_UNMANAGED => Ok(Regime::Unmanaged),
        other => Err(Problem::invalid(format!("there is no regime {other}"))),
    }
}

/// Opens a region, zero at first; a shared one that exists already, with what it holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_region_open(
    connection: *const freehold_connection,
    options: *const freehold_region_options,
    region: *mut *mut freehold_region,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let (out, connection, options, name) = unsafe {
            let out = handle::place(region)?;
            let options = sized::read(options)?;
            let name = text::read(options.name, "the region's name")?;
            (out, handle::borrow(connection)?, options, name)
        };
        if options.reserved != 0 {
            return Err(Problem::invalid("freehold_region_options.reserved is not 0"));
        }
        let kind = match options.kind {
            FREEHOLD_PRIVATE => RegionKind::Private,
            FREEHOLD_SHARED => RegionKind::Shared,
            other => return Err(Problem::invalid(format!("there is no kind {other} of regions"))),
        };
        let spec = RegionSpec {
            name,
            pages: options.pages,
            kind,
            regime: regime(options.regime)?,
        };
        handle::give(connection.open_region(&spec)?, out);
        Ok(())
    })
}

/// Opens a file's content for reading, shared with everybody who opens the same file. `file` is a descriptor open for
/// reading, which stays the caller's; `path` is for reports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_file_open(
    connection: *const freehold_connection,
    file: c_int,
    path: *const c_char,
    regime: u32,
    region: *mut *mut freehold_region,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let (out, connection, path) = unsafe {
            let out = handle::place(region)?;
            (out, handle::borrow(connection)?, text::read(path, "the file's path")?)
        };
        let regime = self::regime(regime)?;
        let wrong = |reason: std::io::Error| Problem::invalid(format!("the file's descriptor {file}: {reason}"));
        if file < 0 {
            return Err(wrong(std::io::ErrorKind::InvalidInput.into()));
        }
        // SAFETY: not -1; whether it is open the kernel finds out, and the caller keeps it so meanwhile.
        let file = unsafe { BorrowedFd::borrow_raw(file) }
            .try_clone_to_owned()
            .map_err(wrong)?;
        handle::give(connection.open_file(&file.into(), regime, Path::new(path))?, out);
        Ok(())
    })
}

/// The length of a region in pages of 4096 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_region_pages(region: *const freehold_region, pages: *mut u32) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let region = unsafe { handle::borrow(region) }?;
        let count = u32::try_from(region.pages()).unwrap_or(u32::MAX);
        // SAFETY: as above.
        unsafe { text::number(pages, count) }
    })
}

/// Ends the use of a region. Its mappings stay until they are ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_region_close(region: *mut freehold_region) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        drop(unsafe { handle::take(region) }?);
        Ok(())
    })
}
