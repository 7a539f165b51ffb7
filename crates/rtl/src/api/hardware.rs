//! CPUs, exclusion, ports and interrupt lines. Ports are latches; lines are virtual.

use std::sync::atomic::{AtomicU32, Ordering};

use freehold_linux::sched;

use crate::runtime::cpus;
use crate::runtime::exclusion;
use crate::runtime::lines::{self, Handler, SoftHandler};

/// `rtl_getcpuid`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_getcpuid() -> i32 {
    sched::current_cpu().cast_signed()
}

/// `rtl_cpu_exists`: whether this process may use it.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_cpu_exists(cpu: i32) -> i32 {
    i32::from(usize::try_from(cpu).is_ok_and(|cpu| cpus::all().contains(&cpu)))
}

/// `rtl_num_cpus`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_num_cpus() -> i32 {
    i32::try_from(cpus::all().len()).unwrap_or(i32::MAX)
}

/// `rtl_no_interrupts`: the state before.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_exclude() -> u32 {
    exclusion::exclude()
}

/// `rtl_restore_interrupts`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_admit(depth: u32) {
    exclusion::admit(depth);
}

/// `rtl_allow_interrupts`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_admit_once() {
    exclusion::admit(exclusion::depth().saturating_sub(1));
}

/// Each port's latch: what was written is read.
static PORTS: [AtomicU32; 65536] = [const { AtomicU32::new(0) }; 65536];

/// `inb`, `inw`, `inl`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_port_read(port: u32, bytes: i32) -> u32 {
    if let Some(value) = lines::cmos_read(port) {
        return value.into();
    }
    let each = |index: u32| PORTS.get(usize::try_from(port + index).unwrap_or(usize::MAX));
    let value = |index: u32| each(index).map_or(0xff, |port| port.load(Ordering::Relaxed));
    (0..bytes.clamp(1, 4).cast_unsigned()).fold(0, |sum, index| sum | (value(index) & 0xff) << (8 * index))
}

/// `outb`, `outw`, `outl`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_port_write(port: u32, value: u32, bytes: i32) {
    for index in 0..bytes.clamp(1, 4).cast_unsigned() {
        let byte = value >> (8 * index) & 0xff;
        if let Some(port) = PORTS.get(usize::try_from(port + index).unwrap_or(usize::MAX)) {
            port.store(byte, Ordering::Relaxed);
        }
        lines::written(port + index, byte);
    }
}

/// `rtl_request_irq`: -EBUSY when it is taken, -EINVAL for a line that does not exist. It is off until
/// `rtl_hard_enable_irq`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_request_irq(line: u32, handler: Option<Handler>) -> i32 {
    handler.map_or(-libc::EINVAL, |handler| {
        lines::request(line, handler, line).err().unwrap_or(0)
    })
}

/// `rtl_irq_set_affinity`: -EINVAL when the line is not taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_irq_set_affinity(
    line: u32,
    cpus: *const libc::c_ulong,
    before: *mut libc::c_ulong,
) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    let cpus = unsafe { super::given(cpus) }.copied();
    match lines::focus(line, cpus) {
        Ok(was) => {
            // SAFETY: null or valid, as the C API wants it.
            if let Some(before) = unsafe { before.as_mut() } {
                *before = was;
            }
            0
        }
        Err(errno) => errno,
    }
}

/// `do_softirq`: handlers of soft lines run in a thread of their own, at once.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_do_softirq() {}

/// `rtl_free_irq`: -EINVAL when it is not taken.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_free_irq(line: u32) -> i32 {
    lines::free(line).err().unwrap_or(0)
}

/// `rtl_hard_enable_irq`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_hard_enable_irq(line: u32) -> i32 {
    lines::enable(line, true).err().unwrap_or(0)
}

/// `rtl_hard_disable_irq`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_hard_disable_irq(line: u32) -> i32 {
    lines::enable(line, false).err().unwrap_or(0)
}

/// `rtl_global_pend_irq`: the handler of a soft line runs on the time-sharing side; for others nothing is to be done,
/// for Linux has had its interrupt.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_global_pend_irq(line: i32) {
    lines::pend(line);
}

/// `rtl_get_soft_irq`: a line whose handler runs on the time-sharing side; -EBUSY when there is none left.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_get_soft_irq(handler: Option<SoftHandler>, _name: *const libc::c_char) -> i32 {
    handler.map_or(-libc::EINVAL, |handler| {
        lines::soft(handler).unwrap_or_else(|errno| errno)
    })
}

/// `rtl_free_soft_irq`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_free_soft_irq(line: u32) {
    lines::free_soft(line);
}
