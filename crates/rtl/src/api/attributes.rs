//! `pthread_attr_t`.

use crate::runtime::life::{GREATEST_PRIORITY, Wanted};

/// `rtl_pthread_attr_t` of the header. Programs write its fields too.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    stack_address: *mut libc::c_void,
    stack_size: i32,
    detached: i32,
    cpu: i32,
    use_fp: i32,
    policy: i32,
    priority: i32,
}

const PLAIN: Attributes = Attributes {
    stack_address: std::ptr::null_mut(),
    stack_size: 0,
    detached: libc::PTHREAD_CREATE_JOINABLE,
    cpu: -1,
    use_fp: 0,
    policy: libc::SCHED_FIFO,
    priority: 0,
};

/// What a new thread is to be; the error is a number of `errno`.
pub(crate) fn wanted(attributes: Option<&Attributes>) -> Result<Wanted, i32> {
    let Attributes {
        stack_size,
        detached,
        cpu,
        priority,
        ..
    } = *attributes.unwrap_or(&PLAIN);
    let priority = i64::from(priority);
    if !(0..=GREATEST_PRIORITY).contains(&priority) {
        return Err(libc::EINVAL);
    }
    let cpu = match u32::try_from(cpu) {
        Err(_) => None,
        Ok(cpu) if crate::api::hardware::rtl_cpu_exists(cpu.cast_signed()) != 0 => Some(cpu),
        Ok(_) => return Err(libc::EINVAL),
    };
    Ok(Wanted {
        priority,
        cpu,
        stack: usize::try_from(stack_size).unwrap_or(0),
        detached: detached == libc::PTHREAD_CREATE_DETACHED,
    })
}

/// `pthread_attr_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_attr_init(attributes: *mut Attributes) -> i32 {
    if attributes.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: not null, so valid for writes, as the C API wants it.
    unsafe { attributes.write(PLAIN) };
    0
}

/// `pthread_attr_destroy`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_pthread_attr_destroy(_attributes: *mut Attributes) -> i32 {
    0
}

/// A function that sets a field, and one that gets it: null is EINVAL, and so is what `check` refuses.
macro_rules! attribute {
    ($set:ident, $get:ident, $field:ident: $kind:ty, $check:expr) => {
        /// Sets the field.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(attributes: *mut Attributes, value: $kind) -> i32 {
            let check: fn($kind) -> bool = $check;
            // SAFETY: null or valid, as the C API wants it.
            match unsafe { attributes.as_mut() } {
                Some(attributes) if check(value) => {
                    attributes.$field = value;
                    0
                }
                _ => libc::EINVAL,
            }
        }

        /// Gets the field.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(attributes: *const Attributes, value: *mut $kind) -> i32 {
            // SAFETY: null or valid, as the C API wants it.
            match unsafe { (attributes.as_ref(), value.as_mut()) } {
                (Some(attributes), Some(value)) => {
                    *value = attributes.$field;
                    0
                }
                _ => libc::EINVAL,
            }
        }
    };
}

attribute!(
    rtl_pthread_attr_setdetachstate,
    rtl_pthread_attr_getdetachstate,
    detached: i32,
    |state| state == libc::PTHREAD_CREATE_JOINABLE || state == libc::PTHREAD_CREATE_DETACHED
);
attribute!(
    rtl_pthread_attr_setcpu_np,
    rtl_pthread_attr_getcpu_np,
    cpu: i32,
    |cpu| crate::api::hardware::rtl_cpu_exists(cpu) != 0
);
attribute!(
    rtl_pthread_attr_setschedpolicy,
    rtl_pthread_attr_getschedpolicy,
    policy: i32,
    |policy| [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_OTHER].contains(&policy)
);
attribute!(rtl_pthread_attr_setfp_np, rtl_pthread_attr_getfp_np, use_fp: i32, |_| true);
attribute!(
    rtl_pthread_attr_setstackaddr,
    rtl_pthread_attr_getstackaddr,
    stack_address: *mut libc::c_void,
    |_| true
);
attribute!(
    rtl_pthread_attr_setpriority,
    rtl_pthread_attr_getpriority,
    priority: i32,
    |priority| (0..=GREATEST_PRIORITY).contains(&i64::from(priority))
);

/// `pthread_attr_setstacksize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_attr_setstacksize(attributes: *mut Attributes, size: usize) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match (unsafe { attributes.as_mut() }, i32::try_from(size)) {
        (Some(attributes), Ok(size)) => {
            attributes.stack_size = size;
            0
        }
        _ => libc::EINVAL,
    }
}

/// `pthread_attr_getstacksize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_attr_getstacksize(attributes: *const Attributes, size: *mut usize) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { (attributes.as_ref(), size.as_mut()) } {
        (Some(attributes), Some(size)) => {
            *size = usize::try_from(attributes.stack_size).unwrap_or(0);
            0
        }
        _ => libc::EINVAL,
    }
}

/// `pthread_attr_setschedparam`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_attr_setschedparam(
    attributes: *mut Attributes,
    parameters: *const libc::sched_param,
) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { parameters.as_ref() } {
        // SAFETY: as this function was called.
        Some(parameters) => unsafe { rtl_pthread_attr_setpriority(attributes, parameters.sched_priority) },
        None => libc::EINVAL,
    }
}

/// `pthread_attr_getschedparam`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_attr_getschedparam(
    attributes: *const Attributes,
    parameters: *mut libc::sched_param,
) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { parameters.as_mut() } {
        // SAFETY: as this function was called.
        Some(parameters) => unsafe { rtl_pthread_attr_getpriority(attributes, &raw mut parameters.sched_priority) },
        None => libc::EINVAL,
    }
}
