//! Blocks of trials until every claim is decided or the budget is spent: plan, schedule, stopping,
//! running, saving, resuming.

pub mod compare;
pub mod outcome;
