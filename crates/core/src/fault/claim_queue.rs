//! The claims of one holder, oldest first, linked through the tasks that wait.

use crate::index::TaskIndex;
use crate::slots::Slots;
use crate::task::Task;

/// Tasks whose fault waits for a frame of one holder.
#[derive(Debug)]
pub(crate) struct ClaimQueue {
    first: TaskIndex,
    last: TaskIndex,
    count: u32,
}

impl ClaimQueue {
    pub(crate) const EMPTY: Self = Self {
        first: TaskIndex::NONE,
        last: TaskIndex::NONE,
        count: 0,
    };

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn first(&self) -> Option<TaskIndex> {
        self.first.some()
    }

    /// Appends a task, which is in no queue.
    pub(crate) fn push(&mut self, tasks: &mut Slots<Task>, task: TaskIndex) {
        match self.last.some().and_then(|last| tasks.at_mut(last.slot())) {
            Some(last) => last.next_claim = task,
            None => self.first = task,
        }
        self.last = task;
        self.count += 1;
    }

    /// Takes a task out, if it is in it. O(claims).
    pub(crate) fn remove(&mut self, tasks: &mut Slots<Task>, task: TaskIndex) {
        let (mut before, mut next) = (TaskIndex::NONE, self.first);
        while let Some(found) = next.some() {
            let after = tasks.at(found.slot()).map_or(TaskIndex::NONE, |task| task.next_claim);
            if found == task {
                self.unlink(tasks, task, (before, after));
                return;
            }
            (before, next) = (found, after);
        }
    }

    fn unlink(&mut self, tasks: &mut Slots<Task>, task: TaskIndex, (before, after): (TaskIndex, TaskIndex)) {
        match before.some().and_then(|before| tasks.at_mut(before.slot())) {
            Some(before) => before.next_claim = after,
            None => self.first = after,
        }
        if after.is_none() {
            self.last = before;
        }
        self.count -= 1;
        if let Some(task) = tasks.at_mut(task.slot()) {
            task.next_claim = TaskIndex::NONE;
        }
    }
}
