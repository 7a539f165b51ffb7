//! The calls of the agent's threads under a filter that binds them too (`SECCOMP_FILTER_FLAG_TSYNC`).
//!
//! A program sets up one filter for all its threads, and the kernel takes the agent's along. Those take pages out: a
//! filter that forbids what they do would end the program, or keep its memory from leaving for good. So the filter that
//! the kernel is given begins with instructions that let this pass, where it is done with the agent's own descriptors
//! and by the one instruction that no call of the program's is made by ([`sys::own`]). All else goes through the
//! program's filter as it is.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::client::{Client, Descriptors};
use crate::hooks;
use crate::sys::{self, Answer};

/// As many instructions as the kernel takes (`BPF_MAXINSNS`).
pub(crate) const INSTRUCTIONS: usize = 4096;

/// `struct sock_filter`: what is done, where to go on if so and if not, and a number.
pub(crate) type Instruction = u64;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7FFF_0000;
const X86_64: u32 = 0xC000_003E;

/// Places in `struct seccomp_data`; of a word of 64 bits the lower half, and where the upper one is from there.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;
const PLACE: u32 = 8;
const ARGUMENTS: u32 = 16;
const UPPER: u32 = 4;

/// What has to be so of a word: its place, the bits that are looked at, and what they are.
type Condition = (u32, u32, u32);

/// Instructions of one condition.
const CONDITION: usize = 3;
/// Conditions of one call: its number, and two of its arguments.
const CONDITIONS: usize = 3;
/// Instructions of one call: the conditions, and the answer.
const CALL: usize = CONDITIONS * CONDITION + 1;
/// Calls that are let pass.
const CALLS: usize = 17;
/// Instructions that find out whether a call is this library's own.
const WHOSE: usize = 6;
/// All of these.
const HEAD: usize = WHOSE + CALLS * CALL;

/// Always so.
const ANY: Condition = (NUMBER, 0, 0);

/// What the agent's threads do while they carry out orders, or wait for some.
fn own_calls(descriptors: &Descriptors) -> [[Condition; CONDITIONS]; CALLS] {
    let call = |call| (NUMBER, u32::MAX, number(call));
    let argument = |place: u32, value: u32| (ARGUMENTS + 8 * place, u32::MAX, value);
    let of = |fd: i32| argument(0, fd.cast_unsigned());
    // `_IOC_TYPE` of the requests of a userfaultfd.
    let userfault = (ARGUMENTS + 8, 0xFF00, 0xAA00);
    let advice = |advice| [call(sys::MADVISE), argument(2, advice), ANY];
    [
        [call(sys::FUTEX), ANY, ANY],
        [call(sys::IOCTL), of(descriptors.mover), userfault],
        [call(sys::IOCTL), of(descriptors.private), userfault],
        [call(sys::PWRITE), of(descriptors.transfer), ANY],
        [call(sys::WRITE), of(descriptors.event), argument(2, 8)],
        [call(sys::PREAD), of(descriptors.pagemap), ANY],
        [call(sys::PREAD), of(descriptors.memory), ANY],
        [call(sys::PREAD), of(descriptors.stat), ANY],
        // `MADV_DONTNEED`, `MADV_DONTNEED_LOCKED`, `MADV_POPULATE_WRITE`, `MADV_DONTFORK`
        advice(4),
        advice(24),
        advice(23),
        advice(10),
        [call(sys::MINCORE), ANY, ANY],
        [call(sys::NANOSLEEP), ANY, ANY],
        [call(sys::EXIT), ANY, ANY],
        [call(sys::POLL), argument(1, 2), ANY],
        // What the kernel makes of the last and of `nanosleep` for a thread that was stopped in it and goes on.
        [call(sys::RESTART), ANY, ANY],
    ]
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

const fn instruction(code: u16, if_so: usize, if_not: usize, number: u32) -> Instruction {
    code as u64 | (if_so as u64) << 16 | (if_not as u64) << 24 | (number as u64) << 32
}

/// The first part of the filter: what lets this library's own calls pass, which are made at `place`.
fn head(descriptors: &Descriptors, place: usize) -> impl Iterator<Item = Instruction> {
    const REST: usize = CALLS * CALL;
    const _: () = assert!(HEAD < 256, "a jump has eight bits");
    let whose: [Instruction; WHOSE] = [
        instruction(LOAD, 0, 0, MACHINE),
        instruction(EQUAL, 0, REST + 4, X86_64),
        instruction(LOAD, 0, 0, PLACE + UPPER),
        instruction(EQUAL, 0, REST + 2, number(place >> 32)),
        instruction(LOAD, 0, 0, PLACE),
        instruction(EQUAL, 0, REST, number(place & 0xFFFF_FFFF)),
    ];
    let calls = own_calls(descriptors).into_iter().flat_map(call);
    whose.into_iter().chain(calls)
}

/// The instructions that let one call pass, and go on behind themselves with all else.
fn call(conditions: [Condition; CONDITIONS]) -> impl Iterator<Item = Instruction> {
    let tests = conditions
        .into_iter()
        .enumerate()
        .flat_map(|(at, (place, mask, value))| {
            let rest = (CONDITIONS - 1 - at) * CONDITION + 1;
            [
                instruction(LOAD, 0, 0, place),
                instruction(AND, 0, 0, mask),
                instruction(EQUAL, 0, rest, value),
            ]
        });
    tests.chain([instruction(RETURN, 0, 0, ALLOW)])
}

/// Writes the first part down.
fn write_head(descriptors: &Descriptors, place: usize, room: &mut [Instruction; INSTRUCTIONS]) {
    for (to, instruction) in room.iter_mut().zip(head(descriptors, place)) {
        *to = instruction;
    }
}

/// Writes the program's filter behind that; how many instructions there are. None where the kernel takes no so many.
fn write_rest(filter: &[Instruction], room: &mut [Instruction; INSTRUCTIONS]) -> Option<usize> {
    let whole = HEAD + filter.len();
    room.get_mut(HEAD..whole)?.copy_from_slice(filter);
    Some(whole)
}

/// The agent thread, before anything of the program runs, which has little of a stack to spare.
pub(crate) fn begin(client: &Client) {
    // SAFETY: no program's thread sets up a filter before this thread has begun.
    write_head(&client.descriptors, sys::own::place(), unsafe { client.filter() });
}

/// `struct sock_fprog`: how many instructions, and where.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Program {
    pub(super) length: u16,
    pub(super) place: usize,
}

/// Calls `set` with where a [`Program`] is that lets the agent's calls pass and else is the program's filter; with none
/// where the kernel would not take so many instructions.
pub(super) fn with(client: &Client, filter: &[Instruction], set: impl FnOnce(Option<usize>) -> Answer) -> Answer {
    /// 1 while a thread writes its filter, or the kernel reads it.
    static WRITTEN: AtomicU32 = AtomicU32::new(0);
    let mut spins = 0;
    while WRITTEN.swap(1, Ordering::Acquire) != 0 {
        hooks::pause(&mut spins);
    }
    // SAFETY: whoever has `WRITTEN` has the room, and the agent thread has left it.
    let room = unsafe { client.filter() };
    let changed = write_rest(filter, room).map(|length| Program {
        length: u16::try_from(length).unwrap_or(0),
        place: room.as_ptr().expose_provenance(),
    });
    let answer = set(changed
        .as_ref()
        .map(|changed| core::ptr::from_ref(changed).expose_provenance()));
    WRITTEN.store(0, Ordering::Release);
    answer
}

#[cfg(test)]
mod tests {
    use super::{ALLOW, AND, EQUAL, LOAD, RETURN};
    use super::{HEAD, INSTRUCTIONS, Instruction, instruction, write_head, write_rest};
    use crate::client::Descriptors;

    const OWN: Descriptors = Descriptors {
        private: 5,
        mover: 6,
        transfer: 7,
        event: 8,
        pagemap: 9,
        memory: 10,
        stat: 11,
        ..Descriptors::NONE
    };
    const PLACE: u64 = 0x7f12_3400_1002;
    /// What the program's own filter answers.
    const PROGRAMS: u32 = 0x8000_0000;

    fn small(number: u64) -> u32 {
        u32::try_from(number).expect("half a word")
    }

    /// What a filter answers, as the kernel would go through it.
    fn answer(filter: &[Instruction], data: &[u32; 16]) -> u32 {
        let (mut at, mut word) = (0, 0_u32);
        loop {
            let now = filter[at];
            let number = small(now >> 32);
            let mut goes_on = true;
            match u16::try_from(now & 0xFFFF).expect("sixteen bits") {
                RETURN => return number,
                LOAD => word = data[number as usize / 4],
                AND => word &= number,
                EQUAL => goes_on = word == number,
                other => panic!("{other:#x}"),
            }
            let jump = if goes_on { now >> 16 } else { now >> 24 };
            at += 1 + small(jump & 0xFF) as usize;
        }
    }

    /// `struct seccomp_data` of a call from a place.
    fn data(call: u32, place: u64, arguments: [u32; 3]) -> [u32; 16] {
        let [first, second, third] = arguments;
        let (lower, upper) = (small(place & 0xFFFF_FFFF), small(place >> 32));
        [
            call,
            0xC000_003E,
            lower,
            upper,
            first,
            0,
            second,
            0,
            third,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ]
    }

    fn written() -> Vec<Instruction> {
        let mut room = Box::new([0; INSTRUCTIONS]);
        write_head(&OWN, usize::try_from(PLACE).expect("64 bits"), &mut room);
        let length = write_rest(&[instruction(RETURN, 0, 0, PROGRAMS)], &mut room);
        assert_eq!(length, Some(HEAD + 1));
        room[..=HEAD].to_vec()
    }

    #[test]
    fn what_the_agent_does_passes_from_its_own_instruction_only() {
        let filter = written();
        for (call, arguments) in [
            (202, [0; 3]),
            (16, [6, 0xC028_AA05, 0]),
            (16, [5, 0xC020_AA07, 0]),
            (18, [7, 0, 0]),
            (1, [8, 0, 8]),
            (17, [9, 0, 0]),
            (17, [10, 0, 0]),
            (17, [11, 0, 0]),
            (60, [0; 3]),
            (28, [0, 0, 4]),
            (28, [0, 0, 24]),
            (28, [0, 0, 23]),
            (28, [0, 0, 10]),
            (27, [0; 3]),
            (35, [0; 3]),
            (7, [0, 2, 0]),
        ] {
            let own = data(call, PLACE, arguments);
            assert_eq!(answer(&filter, &own), ALLOW, "{call} {arguments:x?}");
            for place in [PLACE + 2, PLACE - 2, PLACE ^ 1 << 32, PLACE & 0xFFFF_FFFF, 0] {
                let other = data(call, place, arguments);
                assert_eq!(answer(&filter, &other), PROGRAMS, "{call} at {place:#x}");
            }
            let mut other = own;
            other[1] = 0x4000_0003;
            assert_eq!(answer(&filter, &other), PROGRAMS, "{call} for another machine");
        }
    }

    #[test]
    fn all_else_is_the_programs_filters_to_judge() {
        let filter = written();
        for (call, arguments) in [
            (9, [0; 3]),
            (10, [0; 3]),
            (16, [6, 0x5401, 0]),
            (16, [4, 0xC028_AA05, 0]),
            (18, [10, 0, 0]),
            (17, [7, 0, 0]),
            (17, [12, 0, 0]),
            (231, [0; 3]),
            (1, [8, 0, 9]),
            (1, [2, 0, 8]),
            (28, [0, 0, 9]),
            (7, [0, 3, 0]),
            (59, [0; 3]),
            (0, [0; 3]),
        ] {
            let made = data(call, PLACE, arguments);
            assert_eq!(answer(&filter, &made), PROGRAMS, "{call} {arguments:x?}");
        }
    }

    #[test]
    fn the_documents_say_how_long_the_first_part_is() {
        let text = include_str!("../../../../docs/book/src/exec.md");
        assert!(text.contains(&format!("begins with {HEAD} instructions more")));
    }

    #[test]
    fn what_the_kernel_would_find_too_long_is_not_made_longer() {
        let mut room = Box::new([0; INSTRUCTIONS]);
        let longest = INSTRUCTIONS - HEAD;
        for (length, fits) in [(longest, true), (longest + 1, false), (65535, false)] {
            let filter = vec![instruction(RETURN, 0, 0, PROGRAMS); length];
            assert_eq!(write_rest(&filter, &mut room), fits.then_some(INSTRUCTIONS));
        }
    }
}
