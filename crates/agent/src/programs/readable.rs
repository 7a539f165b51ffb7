//! Whether an environment can be read. Where it cannot, the kernel says so of the call, and the call is left alone.

use super::{Text, Texts};
use crate::sys;

const PAGE: usize = 4096;

/// The last page of a list or text that was found readable: 1 before the first, which is no page's address.
struct Known(usize);

impl Known {
    /// Whether the byte at an address can be read. One call for each page.
    fn has(&mut self, address: usize) -> bool {
        let page = address & !(PAGE - 1);
        if page != self.0 && !sys::is_readable(address) {
            return false;
        }
        self.0 = page;
        true
    }
}

/// Whether a list of texts can be read to its end, and each of its texts. Costs a look at each byte.
pub(super) fn is_readable(list: Texts) -> bool {
    const LAST: usize = size_of::<Text>() - 1;
    let (mut list, mut pages, mut texts) = (list as usize, Known(1), Known(1));
    if list == 0 {
        return true;
    }
    while pages.has(list) && pages.has(list.wrapping_add(LAST)) {
        // SAFETY: both ends of the address can be read, and it is in no third page.
        let text = unsafe { core::ptr::with_exposed_provenance::<usize>(list).read_unaligned() };
        if text == 0 {
            return true;
        }
        if !ends(text, &mut texts) {
            return false;
        }
        list = list.wrapping_add(LAST + 1);
    }
    false
}

/// Whether a text can be read to its end.
fn ends(text: usize, pages: &mut Known) -> bool {
    let mut at = text;
    while pages.has(at) {
        // SAFETY: it can be read, as the kernel says.
        if unsafe { core::ptr::with_exposed_provenance::<u8>(at).read() } == 0 {
            return true;
        }
        at = at.wrapping_add(1);
    }
    false
}
