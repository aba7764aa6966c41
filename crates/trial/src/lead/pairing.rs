//! Contender and work of a trial as values, with contender and work of the load beside it.

use crate::{misfit, suited};
use deadheat_base::error::{Error, Result};
use deadheat_contract::workload::{Load, SharedTask, Task};
use deadheat_datapath::transport::Contender;

/// Contender with its work, and the load that shares the path with it. They are parsed once, so that a file named by
/// one of them has the same text in all trials of a race.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairing {
    /// Contender, fitted to the work.
    pub contender: Contender,
    /// Work.
    pub task: SharedTask,
    /// Contender and bulk data of the load, if the work has one beside it.
    pub load: Option<Box<Pairing>>,
}

impl Pairing {
    /// Pairs a contender with work, and parses the load that the work asks for.
    ///
    /// # Errors
    /// Fails like [`suited`] and [`Pairing::load_of`].
    pub fn new(contender: Contender, task: SharedTask) -> Result<Pairing> {
        let contender = suited(contender, &*task)?;
        let load = Pairing::load_of(&*task)?.map(Box::new);
        Ok(Pairing { contender, task, load })
    }

    /// Parses contender and work as typed.
    ///
    /// # Errors
    /// Fails like [`Contender::parse`], [`SharedTask::parse`] and [`Pairing::new`].
    pub fn parse(contender: &str, work: &str) -> Result<Pairing> {
        Pairing::new(Contender::parse(contender)?, SharedTask::parse(work)?)
    }

    /// Parses the load that work asks for; `None` if it has none.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such contender, or if it cannot carry bulk data.
    pub fn load_of(task: &dyn Task) -> Result<Option<Pairing>> {
        task.info().load.as_ref().map(Pairing::carrying).transpose()
    }

    fn carrying(load: &Load) -> Result<Pairing> {
        let task = SharedTask::parse(&load.workload)?;
        let contender = suited(Contender::parse(&load.contender)?, &*task)
            .map_err(|why| Error::usage(format!("load={}: {why}", load.contender)))?;
        match misfit(&contender, &*task) {
            Some(why) => Err(Error::usage(format!("load={}: {why}", contender.spec))),
            None => Ok(Pairing { contender, task, load: None }),
        }
    }
}
