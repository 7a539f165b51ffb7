//! Earliest deadline first with a hard constant-bandwidth server for each task, after `SCHED_DEADLINE` of Linux: a task
//! whose budget is used up stands still until its next period, then gets a full budget again.

use freehold_core::units::Duration;
use freehold_scenario::Task;

/// The server of one task.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// Of the present period.
    budget: u64,
    /// From the next period on.
    next_budget: u64,
    relative: u64,
    period: u64,
    left: u64,
    deadline: u64,
    /// Whether a first period has begun: until then there is no deadline, and 0 is none.
    begun: bool,
    throttled_until: Option<u64>,
}

impl Server {
    pub(crate) fn new(task: &Task) -> Self {
        let period = task.period.map_or(1, Duration::get).max(1);
        let relative = task.deadline.map_or(period, Duration::get).max(1);
        let budget = task.budget.map_or(relative, Duration::get).clamp(1, relative);
        Self {
            budget,
            next_budget: budget,
            relative,
            period,
            left: 0,
            deadline: 0,
            begun: false,
            throttled_until: None,
        }
    }

    /// The rule on wake-up. A server keeps budget and deadline where that cannot make it use more than its bandwidth.
    /// With a deadline shorter than the period, one that wakes between the two waits for the next period, and one that
    /// wakes before its deadline gets the budget in proportion to the time left.
    pub(crate) fn wake(&mut self, now: u64) {
        if self.throttled_until.is_some() {
            return;
        }
        if !self.begun {
            self.start_period(now);
            return;
        }
        let implicit = self.relative == self.period;
        if self.deadline < now {
            if !implicit && now < self.next_period() {
                self.left = 0;
                self.throttled_until = Some(self.next_period());
            } else {
                self.start_period(now);
            }
        } else if self.would_overflow(now) {
            if implicit {
                self.start_period(now);
            } else {
                let laxity = u128::from(self.deadline - now);
                let share = u128::from(self.budget) * laxity / u128::from(self.relative);
                self.left = u64::try_from(share).unwrap_or(u64::MAX);
            }
        }
    }

    fn start_period(&mut self, now: u64) {
        self.begun = true;
        self.deadline = now.saturating_add(self.relative);
        self.refill();
    }

    /// Whether what is left, used up by the deadline, would exceed budget / relative deadline.
    fn would_overflow(&self, now: u64) -> bool {
        let used = u128::from(self.relative) * u128::from(self.left);
        used > u128::from(self.deadline - now) * u128::from(self.budget)
            || (self.deadline == now && self.relative == self.period)
    }

    fn next_period(&self) -> u64 {
        (self.deadline - self.relative.min(self.deadline)).saturating_add(self.period)
    }

    fn refill(&mut self) {
        self.budget = self.next_budget;
        self.left = self.budget;
    }

    /// As `sched_setattr`: from the next period on.
    pub(crate) fn set_budget(&mut self, budget: u64) {
        self.next_budget = budget.clamp(1, self.relative);
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) fn consume(&mut self, time: u64) {
        self.left = self.left.saturating_sub(time);
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// The budget is used up.
    pub(crate) fn throttle(&mut self, now: u64) {
        let until = self.next_period();
        self.throttled_until = Some(until);
        if until <= now {
            self.replenish(now);
        }
    }

    pub(crate) fn throttled_until(&self) -> Option<u64> {
        self.throttled_until
    }

    /// A new period: a full budget and the next deadline.
    pub(crate) fn replenish(&mut self, now: u64) {
        self.throttled_until = None;
        self.deadline = self.deadline.saturating_add(self.period);
        self.refill();
        if self.deadline <= now {
            self.start_period(now);
        }
    }

    /// The deadline by which it is ranked, unless it is throttled.
    pub(crate) fn runs_until(&self) -> Option<u64> {
        self.throttled_until.is_none().then_some(self.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(budget: u64, relative: u64, period: u64) -> Server {
        Server {
            budget,
            next_budget: budget,
            relative,
            period,
            left: 0,
            deadline: 0,
            begun: false,
            throttled_until: None,
        }
    }

    #[test]
    fn the_first_period_begins_at_the_first_wake_whenever_that_is() {
        for now in [0, 3] {
            for (relative, period) in [(10, 10), (8, 10)] {
                let mut server = server(4, relative, period);
                server.wake(now);
                assert_eq!((server.left, server.runs_until()), (4, Some(now + relative)));
            }
        }
    }

    #[test]
    fn wakes_into_the_old_period_only_with_bandwidth_to_spare() {
        let mut server = server(4, 10, 10);
        server.wake(0);
        assert_eq!((server.left, server.deadline), (4, 10));
        server.consume(3);
        // One left until 10: from 7 on that is less than 4 in 10.
        server.wake(7);
        assert_eq!((server.left, server.deadline), (1, 10));
        server.wake(8);
        assert_eq!((server.left, server.deadline), (4, 18));
    }

    #[test]
    fn a_used_up_budget_stands_still_until_the_next_period() {
        let mut server = server(4, 10, 10);
        server.wake(5);
        server.consume(4);
        server.throttle(9);
        assert_eq!(server.runs_until(), None);
        assert_eq!(server.throttled_until(), Some(15));
        server.replenish(15);
        assert_eq!((server.left, server.runs_until()), (4, Some(25)));
    }

    #[test]
    fn a_new_budget_holds_from_the_next_period() {
        let mut server = server(4, 10, 10);
        server.wake(0);
        server.set_budget(6);
        assert_eq!((server.left, server.budget()), (4, 4));
        server.consume(4);
        server.throttle(4);
        server.replenish(10);
        assert_eq!((server.left, server.budget()), (6, 6));
        // Never more than fits before the deadline.
        server.set_budget(99);
        server.consume(6);
        server.throttle(16);
        server.replenish(20);
        assert_eq!(server.left, 10);
    }

    #[test]
    fn a_constrained_server_that_wakes_after_its_deadline_waits_for_its_period() {
        let mut server = server(2, 4, 10);
        server.wake(1);
        assert_eq!(server.deadline, 5);
        server.consume(1);
        server.wake(7);
        assert_eq!(server.throttled_until(), Some(11));
        server.replenish(11);
        assert_eq!((server.left, server.deadline), (2, 15));
    }

    #[test]
    fn a_constrained_server_that_wakes_before_its_deadline_gets_its_share() {
        let mut server = server(2, 4, 10);
        server.wake(1);
        server.wake(3);
        assert_eq!((server.left, server.deadline), (1, 5));
    }
}
