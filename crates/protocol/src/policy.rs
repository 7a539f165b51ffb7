//! The core's words, amounts and settings as fields of messages: the policy says what they mean, and which of them can
//! be; here is how they lie in a message.

use crate::field::{Field, Malformed, Reader, Writer, carried, chosen};
use freehold_core::limits::{Regime, ReservationKind};
use freehold_core::pinning::{
    CapacityRule, JobReport, Judgement, PinningPolicy, PinningSettings, Ratio, SwapBudgetRule, UnpinnedGoTo,
};
use freehold_core::units::{Duration, PageCount};
use freehold_core::view::TaskCounts;

macro_rules! amount {
    ($($type:ident: $number:ty),*) => {
        $(impl<'a> Field<'a> for $type {
            fn put(&self, writer: &mut Writer<'_>) -> Result<(), Malformed> {
                <$number as Field<'a>>::put(&self.get(), writer)
            }

            fn get(reader: &mut Reader<'a>, name: &'static str) -> Result<Self, Malformed> {
                <$number as Field<'a>>::get(reader, name).map(Self::new)
            }
        })*
    };
}

amount!(Duration: u64, PageCount: u32);

/// Millionths; none for zero and above a million.
impl<'a> Field<'a> for Ratio {
    fn put(&self, writer: &mut Writer<'_>) -> Result<(), Malformed> {
        self.millionths().put(writer)
    }

    fn get(reader: &mut Reader<'a>, name: &'static str) -> Result<Self, Malformed> {
        Self::from_millionths(u32::get(reader, name)?).ok_or(Malformed::Value { field: name })
    }
}

chosen!(ReservationKind { Hard = 1, Firm = 2 });
chosen!(Regime { Conserve = 1, Unmanaged = 2 });
chosen!(PinningPolicy { All = 1, Adaptive = 2, Freehold = 3 });
chosen!(UnpinnedGoTo { Text = 1, Listing = 2 });
chosen!(CapacityRule { Grown = 1, AtLimit = 2, Shrunk = 3, Held = 4, NotMemory = 5, Steady = 6 });
chosen!(SwapBudgetRule { Raised = 1, AtLimit = 2, Lowered = 3, Held = 4, Off = 5 });

carried!(PinningSettings {
    policy,
    period,
    budget,
    swap_budget,
    highest_swap_budget,
    initial_capacity,
    highest_capacity,
    alpha,
    beta,
    gamma,
    lambda,
    unpinned_go_to,
    memory_share,
    steady,
    restore,
});
carried!(JobReport {
    missed,
    running,
    remaining,
    swap_ins,
    swap_time,
    swap_delay,
    delay,
    memory_delay,
    slack,
});
carried!(Judgement {
    capacity,
    capacity_rule,
    swap_budget,
    swap_budget_rule
});
carried!(TaskCounts {
    soft_faults,
    zero_fills,
    swap_ins,
    shared_swap_ins,
    file_reads,
    copies,
    write_faults,
    ahead,
    read_ahead,
    evictions,
    waited,
});
