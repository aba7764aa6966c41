//! Task as a value that several parts of a race share.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{LanesApart, Setting, Task, of_spec, parse, parse_on};
use deadheat_base::error::Result;
use deadheat_base::spec::Spec;

/// Task that is cheap to clone. Two are equal if their settings are.
#[derive(Clone)]
pub struct SharedTask(Arc<dyn Task>);

impl SharedTask {
    /// Reads a workload as typed, as on loopback.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn parse(typed: &str) -> Result<SharedTask> {
        parse(typed).map(SharedTask::from)
    }

    /// Creates the work of a complete spec.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn of(spec: Spec) -> Result<SharedTask> {
        of_spec(spec, &Setting::LOOPBACK).map(SharedTask::from)
    }

    /// Reads a workload as typed; defaults of its keys follow from `setting`.
    ///
    /// # Errors
    /// As [`parse_on`].
    pub fn parse_on(typed: &str, setting: &Setting) -> Result<SharedTask> {
        parse_on(typed, setting).map(SharedTask::from)
    }
}

impl From<Box<dyn Task>> for SharedTask {
    fn from(task: Box<dyn Task>) -> SharedTask {
        SharedTask(task.into())
    }
}

impl From<LanesApart> for SharedTask {
    fn from(task: LanesApart) -> SharedTask {
        SharedTask(Arc::new(task))
    }
}

impl Deref for SharedTask {
    type Target = dyn Task;

    fn deref(&self) -> &(dyn Task + 'static) {
        &*self.0
    }
}

impl PartialEq for SharedTask {
    fn eq(&self, other: &SharedTask) -> bool {
        self.info().spec == other.info().spec
    }
}

impl fmt::Display for SharedTask {
    /// Writes its settings as typed, with all defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info().spec.fmt(f)
    }
}

impl fmt::Debug for SharedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedTask({self})")
    }
}
