//! Course of a test, as its threads share it: its times, its limits, and its end.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use deadheat_base::descriptor::ready;

use super::asked::TOTAL_RATE;
use super::control::TestFailure;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::responder::TestGrant;

/// Longest time without a look at the end of the test.
const LOOK: Nanos = Nanos::from_millis(20);

/// Course of a test.
pub(super) struct Course<'a> {
    grant: &'a dyn TestGrant,
    pub(super) begin: Nanos,
    /// Time from which bytes count.
    pub(super) counts_from: Nanos,
    is_over: AtomicBool,
    /// Closed at its other end once the test is over.
    over: PipeReader,
    alarm: PipeWriter,
    failure: Mutex<Option<TestFailure>>,
}

/// End of the threads of a test: over once dropped.
pub(super) struct CourseEnd {
    _over: PipeWriter,
    alarm: PipeReader,
}

impl CourseEnd {
    /// Returns the descriptor that is readable once a thread has failed.
    pub(super) fn alarm(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }
}

impl<'a> Course<'a> {
    /// Begins a course now, whose first `omit` does not count.
    pub(super) fn begin(
        grant: &'a dyn TestGrant,
        omit: Nanos,
    ) -> io::Result<(Course<'a>, CourseEnd)> {
        let (over, end) = io::pipe()?;
        let (alarmed, alarm) = io::pipe()?;
        let begin = Monotonic.now();
        let (is_over, failure) = (AtomicBool::new(false), Mutex::default());
        let course =
            Course { grant, begin, counts_from: begin + omit, is_over, over, alarm, failure };
        Ok((course, CourseEnd { _over: end, alarm: alarmed }))
    }

    /// Ends the course: threads that wait return at once.
    pub(super) fn end(&self, end: CourseEnd) {
        self.is_over.store(true, Ordering::Release);
        drop(end);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Charges bytes since `last`; returns the time from which more may pass in each direction.
    pub(super) fn charge(&self, last: Nanos, bytes: [u64; 2]) -> [Nanos; 2] {
        let charged = self.grant.charge(last, bytes);
        if !charged.is_within_sum {
            let why = "it went beyond the bytes of a test (--max-bytes, or what --max-total and --max-per-client leave)";
            self.fail(TestFailure::Refused(TOTAL_RATE, why.to_owned()));
        }
        charged.due
    }

    /// Ends the test with a failure; the first one counts.
    pub(super) fn fail(&self, failure: TestFailure) {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(failure);
            // The pipe has room for one byte.
            let _ = (&self.alarm).write(&[1]);
        }
    }

    /// Returns the failure of a thread.
    pub(super) fn failure(&self) -> Option<TestFailure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits for events of `fd` until the end of the course.
    pub(super) fn wait_for(&self, fd: BorrowedFd<'_>, events: libc::c_short) {
        // An interrupted wait is as good as one that is over.
        let _ = ready([(fd, events), (self.over.as_fd(), 0)], Some(LOOK));
    }

    /// Sleeps until `until`, or until the end of the course.
    pub(super) fn sleep_until(&self, until: Nanos) {
        loop {
            let left = until - Monotonic.now();
            if left == Nanos::ZERO || self.is_over() {
                return;
            }
            std::thread::sleep(left.min(LOOK).into());
        }
    }
}
