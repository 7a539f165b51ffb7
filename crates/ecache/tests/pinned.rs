//! Memory that a ring of io_uring keeps after its client has closed everything: no lease shows it.

mod common;

use common::{cache, content, key, until};
use freehold_ecache::{Client, DeviceState, PAGE_SIZE};
use freehold_linux::memory::{Access, Memfd, SharedMapping};

#[test]
fn a_pinned_page_is_no_page_of_the_cache() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not run: frames are told to root only");
        return;
    }
    let cache = cache(&[("mfc0", "4MiB", false), ("jpeg", "2MiB", false)]);
    let opened = cache.open("mfc0", 0, Client::default()).unwrap();
    let theirs = opened.grant.descriptors[0].try_clone().unwrap();
    let memory = Memfd::adopt(theirs, 512).unwrap();
    let mapping = SharedMapping::of_whole(&memory, Access::ReadWrite).unwrap();
    let ring = match io_uring::IoUring::new(2) {
        Ok(ring) => ring,
        Err(error) => {
            eprintln!("not run: there is no io_uring here ({error})");
            return;
        }
    };
    let buffer = libc::iovec {
        iov_base: mapping.base().cast(),
        iov_len: PAGE_SIZE,
    };
    // SAFETY: the buffer is mapped now; the kernel keeps its frame, and nothing is ever read or written through it.
    unsafe { ring.submitter().register_buffers(&[buffer]) }.unwrap();
    drop((mapping, memory));
    drop(opened);
    until("the rest comes back", || cache.counts().0.retired.get() == 512);
    assert_eq!(cache.device_rows()[0].state, DeviceState::Returning);
    assert_eq!(cache.counts().0.device.get(), 0, "what is not pinned serves again");
    for page in 0..1024 {
        cache.put(key(1, page), &content(key(1, page), 0)).unwrap();
    }
    drop(ring);
    until("it comes back", || cache.device_rows()[0].state == DeviceState::Idle);
    assert_eq!(cache.counts().0.retired.get(), 0);
    let mut page = [0; PAGE_SIZE];
    assert!((0..1024).all(|number| cache.get(key(1, number), &mut page)));
    cache.check_laws().unwrap();
}
