//! A ring that may be made but not used, as under some seccomp filters, is refused when it is made: nobody waits for
//! transfers that were never handed over.

use std::os::fd::AsFd;
use std::sync::Arc;

use freehold_linux::Errno;
use freehold_linux::event::Event;
use freehold_linux::memory::Memfd;
use freehold_linux::ring::Ring;

/// Forbids `call` to the calling thread alone.
fn forbid(call: libc::c_long) {
    let step = |code: u32, jump_false: u8, operand: u32| libc::sock_filter {
        code: u16::try_from(code).expect("an operation"),
        jt: 0,
        jf: jump_false,
        k: operand,
    };
    let mut filter = [
        // The number of the call is the first word.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            1,
            u32::try_from(call).expect("a number"),
        ),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned(),
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program, which lives until then; both calls concern the calling thread alone.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    assert!(done, "no filter: {}", std::io::Error::last_os_error());
}

#[test]
fn a_ring_that_may_be_made_but_not_used_is_refused() {
    let ring = || {
        let file = Memfd::create(c"freehold-test", 1).expect("a memfd");
        let file = file.as_fd().try_clone_to_owned().expect("a descriptor");
        let event = Arc::new(Event::new().expect("an event"));
        Ring::new(file, event, 4).map(drop)
    };
    if let Err(errno) = ring() {
        println!("not tested: there is no io_uring here: {errno}");
        return;
    }
    let refused = std::thread::spawn(move || {
        forbid(libc::SYS_io_uring_enter);
        ring()
    });
    assert_eq!(refused.join().expect("no panic"), Err(Errno::PERM));
}
