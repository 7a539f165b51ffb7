//! What can be wrong with a command or a fact. Nothing has changed when one of these is returned.

use core::fmt;

use crate::error::errors;
use crate::units::FrameCount;

errors! {
    /// Why a victim cache cannot be made.
    SpecError {
        /// The region has no frames, or more than 2²⁴.
        Frames => "a region has 1 to 16777216 frames",
        /// A limit is zero or out of range.
        Limit => "granule, copies (at most 1024) and files must be at least 1",
        /// No device, an empty one, or too many.
        Devices => "1 to 8 devices of at least one frame each; 7 where the region is larger than their sum",
        /// The devices do not fit together.
        TooSmall {
            /// Frames of the region.
            region: FrameCount,
            /// Frames of all devices.
            devices: FrameCount,
        } => "the devices need {devices}, the region has {region}: enlarge it, or shrink a device",
        /// The order of `static` does not name each device once.
        Order => "the order of the devices must name each of them once",
        /// The tables do not fit into memory.
        OutOfMemory => "no memory for the tables of the victim cache: shrink the region",
    }
}
errors! {
    /// Why a page is not taken.
    PutError {
        /// Every frame is a device's, or a copy is under way in it.
        NoFrame => "no frame of the region can be had now",
        /// As many copies are under way as can be.
        Copies => "as many copies are under way as the limit `copies` allows",
        /// Pages of as many files are here as can be.
        Files => "pages of as many files are cached as the limit `files` allows",
    }
}
errors! {
    /// Why a device is not opened, or not given more.
    OpenError {
        /// There is no such device.
        Unknown => "there is no such device",
        /// It is open, or what it had is still being returned.
        InUse => "the device is open already, or what it had is still on its way back",
        /// More is wanted than the device has.
        TooLarge {
            /// What the device has.
            size: FrameCount,
        } => "the device has {size}",
        /// No possible place is free; only with the paper's placement, or a static one.
        NoPlace => "no place is free for the device: close another one",
        /// It is not open, or its frames are still being handed over.
        NotOpen => "the device is not open, or its frames are still being handed over",
    }
}
errors! {
    /// Why a fact of the engine does not fit: a bug in the engine.
    FactError {
        /// No copy is under way in that frame.
        NoCopy => "no copy is under way in that frame",
        /// The device is not being closed, or has not got all of these frames.
        NotLent => "the device is not being closed, or does not have all of these frames",
    }
}
